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
    /// The events.
    pub all: Vec<T>,
}

/// Reads the events of an element's journal from a number on. Its first line begins with the number of the next event, and ends with how many are gone.
pub(crate) fn events<T>(
    client: &mut Client,
    element: &str,
    from: u64,
    event: fn(&str) -> Option<T>,
) -> Result<Events<T>, Failure> {
    let text = ask(client, &format!("{element}.journal"), &from.to_string())?;
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let numbers: Vec<u64> = first.split(' ').filter_map(|word| word.parse().ok()).collect();
    let &[next, .., gone] = &numbers[..] else { return Err(not_understood(first)) };
    let all = lines.map(|line| event(line).ok_or_else(|| not_understood(line))).collect::<Result<_, _>>()?;
    Ok(Events { next, gone, all })
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
