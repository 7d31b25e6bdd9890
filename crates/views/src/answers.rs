// SPDX-License-Identifier: MIT OR Apache-2.0
//! Elements of a router and what they answer.

use client::{Client, Done, Failure, Want};

pub(crate) fn not_understood(line: &str) -> Failure {
    Failure::Unreachable(format!("the router's answer is not understood: '{line}'"))
}

/// The router's element of one of these classes, with its class; the one with this name, if one is named.
///
/// # Errors
/// There is none, or there are several.
pub fn find(
    client: &mut Client,
    name: Option<&str>,
    classes: &[&'static str],
) -> Result<(String, &'static str), Failure> {
    let class_of = |client: &mut Client, element: &str| -> Result<Option<&'static str>, Failure> {
        let class = client.read(&format!("{element}.class"))?;
        Ok(classes.iter().find(|one| **one == class.trim()).copied())
    };
    if let Some(name) = name {
        let class = class_of(client, name)?;
        let wanted = classes.join(" or ");
        return class
            .map(|class| (name.to_owned(), class))
            .ok_or_else(|| Failure::Unclear(format!("'{name}' is no element {wanted}")));
    }
    let list = client.read("list")?;
    let mut found = Vec::new();
    // The first line is their number.
    for element in list.lines().skip(1) {
        if let Some(class) = class_of(client, element)? {
            found.push((element.to_owned(), class));
        }
    }
    match &found[..] {
        [one] => Ok(one.clone()),
        [] => Err(Failure::Unclear(format!("the router has no element {}", classes.join(" or ")))),
        several => {
            let names: Vec<String> =
                several.iter().map(|(name, class)| format!("{name} :: {class}")).collect();
            Err(Failure::Unclear(format!(
                "the router has several ({}): name one by --element",
                names.join(", ")
            )))
        }
    }
}

/// Reads a handler that wants a parameter.
///
/// # Errors
/// The router does not answer, or refuses.
pub fn ask(client: &mut Client, handler: &str, parameter: &str) -> Result<String, Failure> {
    match client.call(handler, parameter, Want::Read)? {
        Done::Read(text) | Done::Written(text) => Ok(text),
    }
}

/// Events of a journal.
#[derive(Clone, Debug, Default)]
pub struct Events<T> {
    /// The number of the next one.
    pub next: u64,
    /// How many are gone that were asked for.
    pub gone: u64,
    /// How many the journal has not taken since it began, because they were too many at a time.
    pub missed: u64,
    /// The events.
    pub all: Vec<T>,
}

/// What a reader of a journal lacks from one answer to the next.
#[derive(Clone, Debug, Default)]
pub struct Lack {
    /// Events that had not been taken at the last answer.
    missed: Option<u64>,
}

impl Lack {
    /// Takes an answer about events from a number on. Returns how many events were not taken since the answer before.
    /// In the first answer from 0 on no event counts as gone: nobody has asked for those from before.
    pub fn answer<T>(&mut self, from: u64, events: &mut Events<T>) -> u64 {
        let before = self.missed.replace(events.missed);
        if before.is_none() && from == 0 {
            events.gone = 0;
        }
        events.missed.saturating_sub(before.unwrap_or(events.missed))
    }
}

/// Reads the events of an element's journal from a number on. Its first line begins with the number of the next event, and ends with how many are gone.
/// Between them is how many were not taken, if the journal says so.
pub(crate) fn events<T>(
    client: &mut Client,
    element: &str,
    from: u64,
    event: fn(&str) -> Option<T>,
) -> Result<Events<T>, Failure> {
    let text = ask(client, &format!("{element}.journal"), &from.to_string())?;
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let (next, missed, gone) = beginning(first).ok_or_else(|| not_understood(first))?;
    let all = lines.map(|line| event(line).ok_or_else(|| not_understood(line))).collect::<Result<_, _>>()?;
    Ok(Events { next, gone, missed, all })
}

/// The numbers of a journal's first line: the next event, how many were not taken, and how many are gone.
fn beginning(line: &str) -> Option<(u64, u64, u64)> {
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [next, gone] => Some((next, 0, gone)),
        [next, missed, .., gone] => Some((next, missed, gone)),
        _ => None,
    }
}

/// Seconds, as people say them.
pub(crate) fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_are_understood() {
        for (line, expected) in
            [("7 2", Some((7, 0, 2))), ("7 5 2", Some((7, 5, 2))), ("7", None), ("", None)]
        {
            assert_eq!(beginning(line), expected, "{line}");
        }
    }

    #[test]
    fn what_answers_lack_is_counted() {
        // For each answer: from which number on, how many were gone and not taken, and what that comes to.
        let journals: [&[[u64; 5]]; 3] = [
            // The events from before count neither as gone nor as not taken; those from then on do.
            &[[0, 40, 9, 0, 0], [50, 3, 9, 3, 0], [60, 0, 12, 0, 3]],
            // An empty journal was asked first: what goes later was asked for.
            &[[0, 0, 0, 0, 0], [0, 70, 5, 70, 5]],
            // Asked from a number on, and a router that began anew.
            &[[8, 2, 7, 2, 0], [9, 0, 1, 0, 0]],
        ];
        for answers in journals {
            let mut lack = Lack::default();
            for &[from, gone, missed, expected_gone, expected_missed] in answers {
                let mut events = Events::<()> { next: 0, gone, missed, all: Vec::new() };
                let found = lack.answer(from, &mut events);
                assert_eq!((events.gone, found), (expected_gone, expected_missed), "{answers:?}");
            }
        }
    }
}
