//! Which operation comes next (`site.ycsb.generator.DiscreteGenerator`).

use base::Random;

/// What YCSB's client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// One record, all of its fields or one.
    Read,
    /// One record's fields, all or one.
    Update,
    Insert,
    /// Records from a key on, in its order.
    Scan,
    ReadModifyWrite,
}

/// Operations and how often each comes.
#[derive(Debug, Clone)]
pub struct Mix(Vec<(Operation, f64)>);

impl Mix {
    /// By weights, whose sum is 1 or something else; what has none is left out.
    pub fn new(weights: impl IntoIterator<Item = (Operation, f64)>) -> Self {
        let weights: Vec<_> = weights.into_iter().filter(|(_, weight)| *weight > 0.0).collect();
        let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
        Mix(weights.into_iter().map(|(operation, weight)| (operation, weight / sum)).collect())
    }

    pub fn has(&self, operation: Operation) -> bool {
        self.0.iter().any(|(known, _)| *known == operation)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn next(&self, random: &mut Random) -> Operation {
        let mut rest = random.fraction();
        for (operation, share) in &self.0 {
            if rest < *share {
                return *operation;
            }
            rest -= share;
        }
        // Shares that add up to a little less than 1.
        self.0[self.0.len() - 1].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comes_as_often_as_its_weight() {
        let mix = Mix::new([(Operation::Read, 1.9), (Operation::Insert, 0.1), (Operation::Scan, 0.0)]);
        assert!(mix.has(Operation::Insert) && !mix.has(Operation::Scan) && !mix.has(Operation::Update));
        let mut random = Random::new(6);
        let drawn: Vec<_> = (0..100_000).map(|_| mix.next(&mut random)).collect();
        let inserts = drawn.iter().filter(|operation| **operation == Operation::Insert).count();
        // 5 % of them, with a deviation of 69.
        assert!((4655..5345).contains(&inserts), "{inserts}");
        assert!(drawn.iter().all(|operation| matches!(operation, Operation::Read | Operation::Insert)));
        assert!(Mix::new([(Operation::Read, 0.0)]).is_empty());
    }
}
