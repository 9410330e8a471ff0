//! A leak made short: commands, then the words of the last ones, are left out as long as it still leaks (Zeller and Hildebrandt:
//! Simplifying and Isolating Failure-Inducing Input, 2002).

use crate::command::Command;

/// At which command something leaks, and what; None where nothing does.
type Replayed = Result<Option<(usize, String)>, String>;

/// So many replays are spent on one find.
const MOST_REPLAYS: usize = 400;

/// The shortest that was found, with what leaks; None where it does not leak a second time.
pub fn minimise(
    commands: Vec<Command>,
    replay: &mut dyn FnMut(&[Command]) -> Replayed,
) -> Result<Option<(Vec<Command>, String)>, String> {
    let Some((place, mut what)) = replay(&commands)? else { return Ok(None) };
    let mut commands = commands[..=place].to_vec();
    let mut left = MOST_REPLAYS;
    let mut try_it = |candidate: &[Command], left: &mut usize| -> Result<Option<String>, String> {
        if *left == 0 {
            return Ok(None);
        }
        *left -= 1;
        Ok(replay(candidate)?.map(|(_, what)| what))
    };
    // The last one alone is enough more often than not.
    if let Some(last) = commands.last().cloned()
        && let Some(now) = try_it(std::slice::from_ref(&last), &mut left)?
    {
        (commands, what) = (vec![last], now);
    }
    shorten(&mut commands, &mut |candidate| {
        let leaks = try_it(candidate, &mut left)?;
        Ok(leaks.inspect(|now| what.clone_from(now)).is_some())
    })?;
    for place in (0..commands.len()).rev() {
        let Some(text) = commands[place].text_mut().cloned() else { continue };
        let mut words = words(&text);
        let mut kept = commands.clone();
        shorten(&mut words, &mut |candidate: &[Vec<u8>]| {
            let mut changed = kept.clone();
            changed[place].text_mut().expect("it has a text").clone_from(&candidate.concat());
            let leaks = try_it(&changed, &mut left)?;
            let leaks = leaks.inspect(|now| what.clone_from(now)).is_some();
            if leaks {
                kept = changed;
            }
            Ok(leaks)
        })?;
        commands = kept;
    }
    Ok(Some((commands, what)))
}

/// Leave out stretches, long ones first.
fn shorten<T: Clone>(items: &mut Vec<T>, still: &mut dyn FnMut(&[T]) -> Result<bool, String>) -> Result<(), String> {
    let mut size = items.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at + size <= items.len() && items.len() > 1 {
            let candidate = [&items[..at], &items[at + size..]].concat();
            if still(&candidate)? {
                *items = candidate;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    Ok(())
}

/// Letters and digits that stand together; all other bytes by themselves.
fn words(text: &[u8]) -> Vec<Vec<u8>> {
    let joins = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.chunk_by(|left, right| joins(*left) && joins(*right)).map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_goes() {
        let query = |text: &str| Command::Query(text.as_bytes().to_vec());
        let mut commands: Vec<_> = (0..40).map(|number| query(&format!("SELECT {number}"))).collect();
        commands[11] = query("SET sql_mode = 'strange, and more'");
        commands.push(query("SELECT a, b, CONCAT(name), c, 1e1FROM people WHERE d = 1"));
        commands.push(query("SELECT never"));
        let mut replays = 0;
        let mut replay = |commands: &[Command]| -> Replayed {
            replays += 1;
            let mut is_set = false;
            for (place, command) in commands.iter().enumerate() {
                let text = String::from_utf8(command.clone().text_mut().unwrap().clone()).unwrap();
                is_set |= text.contains("SET") && text.contains("strange");
                if is_set && text.contains("CONCAT(name)") && text.contains("1e1FROM people") {
                    return Ok(Some((place, "leak".into())));
                }
            }
            Ok(None)
        };
        let (short, what) = minimise(commands, &mut replay).unwrap().unwrap();
        assert_eq!((short, what.as_str()), (vec![query("SETstrange"), query("CONCAT(name)1e1FROM people")], "leak"));
        assert!(replays <= MOST_REPLAYS);
    }

    #[test]
    fn what_does_not_come_again_is_no_find() {
        let commands = vec![Command::Query(b"SELECT 1".to_vec())];
        assert!(minimise(commands, &mut |_| Ok(None)).unwrap().is_none());
    }
}
