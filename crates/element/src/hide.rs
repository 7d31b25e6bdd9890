// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts without the secrets that they hold: [`HIDDEN`] stands in their place.

use std::borrow::Cow;
use std::ops::Range;

use lang::config::split_args;

/// Where secrets stand in an argument, or in a message that shows one: ranges of bytes in their order.
pub type Find = fn(text: &str) -> Vec<Range<usize>>;

/// What stands in the place of a secret.
pub const HIDDEN: &str = "***";

/// A configuration string without its secrets, which `find` finds.
pub fn shown(find: Option<Find>, config: &str) -> Cow<'_, str> {
    let Some(find) = find else { return config.into() };
    let arguments = split_args(config);
    if arguments.iter().all(|argument| find(&argument.text).is_empty()) {
        return config.into();
    }
    let hidden: Vec<String> = arguments.iter().map(|argument| hide(&argument.text, find)).collect();
    hidden.join(", ").into()
}

/// A message without the secrets that it shows.
pub fn message(find: Option<Find>, message: &str) -> String {
    find.map_or_else(|| message.to_owned(), |find| hide(message, find))
}

/// A text without the secrets that it holds.
pub fn hide(argument: &str, find: Find) -> String {
    let (mut text, mut from) = (String::new(), 0);
    for secret in find(argument) {
        text.push_str(argument.get(from..secret.start).unwrap_or_default());
        text.push_str(HIDDEN);
        from = secret.end;
    }
    text + argument.get(from..).unwrap_or_default()
}
