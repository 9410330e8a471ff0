//! The mix of transactions (clause 5.2.3), dealt from a deck of cards that is shuffled when it is empty (clause 5.2.4.2),
//! and the times that a terminal's user takes (clause 5.2.5).

use base::Random;
use record::Phase;

/// What a terminal is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Card {
    /// Clause 2.4.
    NewOrder,
    /// Clause 2.5.
    Payment,
    /// Clause 2.6.
    OrderStatus,
    /// Clause 2.7.
    Delivery,
    /// Clause 2.8.
    StockLevel,
}

/// Cards in a deck: 45, 43, 4, 4 and 4 of a hundred.
const COUNTS: [(Card, usize); 5] =
    [(Card::NewOrder, 45), (Card::Payment, 43), (Card::OrderStatus, 4), (Card::Delivery, 4), (Card::StockLevel, 4)];
const SECOND_NS: f64 = 1e9;
/// A think time is cut there, in means (clause 5.2.5.4).
const LONGEST_THINK: f64 = 10.0;

impl Card {
    pub fn phase(self) -> Phase {
        match self {
            Card::NewOrder => Phase::NewOrder,
            Card::Payment => Phase::Payment,
            Card::OrderStatus => Phase::OrderStatus,
            Card::Delivery => Phase::Delivery,
            Card::StockLevel => Phase::StockLevel,
        }
    }

    /// How long its input takes to type (clause 5.2.5.2), in nanoseconds.
    pub fn keying_ns(self) -> u64 {
        let seconds = match self {
            Card::NewOrder => 18.0,
            Card::Payment => 3.0,
            Card::OrderStatus | Card::Delivery | Card::StockLevel => 2.0,
        };
        (seconds * SECOND_NS) as u64
    }

    /// How long its output is looked at: exponentially distributed (clause 5.2.5.4), in nanoseconds.
    pub fn think_ns(self, random: &mut Random) -> u64 {
        let mean = match self {
            Card::NewOrder | Card::Payment => 12.0,
            Card::OrderStatus => 10.0,
            Card::Delivery | Card::StockLevel => 5.0,
        };
        (mean * random.exponential().min(LONGEST_THINK) * SECOND_NS) as u64
    }
}

/// One terminal's.
pub struct Deck {
    cards: Vec<Card>,
    dealt: usize,
}

impl Deck {
    /// To be shuffled with the first card.
    pub fn new() -> Self {
        let cards: Vec<_> = COUNTS.iter().flat_map(|(card, count)| std::iter::repeat_n(*card, *count)).collect();
        Deck { dealt: cards.len(), cards }
    }

    pub fn deal(&mut self, random: &mut Random) -> Card {
        if self.dealt == self.cards.len() {
            shuffle(&mut self.cards, random);
            self.dealt = 0;
        }
        self.dealt += 1;
        self.cards[self.dealt - 1]
    }
}

/// Every order is as likely as another (Fisher and Yates).
pub fn shuffle<T>(things: &mut [T], random: &mut Random) {
    for last in (1..things.len()).rev() {
        things.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hundred_transactions_are_the_mix() {
        let (mut deck, mut random) = (Deck::new(), Random::new(1));
        let mut first = Vec::new();
        for _ in 0..20 {
            let dealt: Vec<_> = (0..100).map(|_| deck.deal(&mut random)).collect();
            for (card, count) in COUNTS {
                assert_eq!(dealt.iter().filter(|found| **found == card).count(), count, "{card:?}");
            }
            assert_ne!(first, dealt, "it is shuffled anew");
            first = dealt;
        }
    }

    #[test]
    fn a_shuffle_puts_each_anywhere() {
        let mut random = Random::new(2);
        let mut firsts = [0; 5];
        for _ in 0..50_000 {
            let mut cards = [0, 1, 2, 3, 4];
            shuffle(&mut cards, &mut random);
            firsts[cards[0]] += 1;
            cards.sort_unstable();
            assert_eq!(cards, [0, 1, 2, 3, 4], "none is lost");
        }
        assert!(firsts.iter().all(|count| (9_500..10_500).contains(count)), "{firsts:?}");
    }

    #[test]
    fn users_think_as_long_as_clause_5_2_5_wants() {
        let mut random = Random::new(3);
        for (card, mean) in [(Card::NewOrder, 12.0), (Card::OrderStatus, 10.0), (Card::StockLevel, 5.0)] {
            let times: Vec<_> = (0..200_000).map(|_| card.think_ns(&mut random) as f64 / 1e9).collect();
            let average = times.iter().sum::<f64>() / times.len() as f64;
            assert!((average / mean - 1.0).abs() < 0.02, "{average}");
            assert!(times.iter().all(|time| (0.0..=10.0 * mean).contains(time)));
        }
        assert_eq!(Card::NewOrder.keying_ns(), 18_000_000_000);
    }
}
