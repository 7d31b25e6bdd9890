// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any text: formatting it keeps what the compiler makes of it, and formatting it again changes nothing.

use junctor_fmt::{Error, format};
use lang::config::split_args;
use lang::{Graph, Options, PortRef, load_str};

/// Elements with their arguments, connections, and requirements.
type Essence<'a> = (Vec<(&'a str, &'a str, Vec<String>)>, Vec<(PortRef, PortRef)>, Vec<(&'a str, &'a str)>);

/// What must be equal of two graphs: all but places, and spaces between arguments.
fn essence(graph: &Graph) -> Essence<'_> {
    let args = |config: &str| split_args(config).into_iter().map(|arg| arg.text).collect();
    (
        graph.elements.iter().map(|e| (e.name.as_str(), e.class.as_str(), args(&e.config))).collect(),
        graph.connections.iter().map(|c| (c.from, c.to)).collect(),
        graph.requirements.iter().map(|r| (r.kind.as_str(), r.value.as_str())).collect(),
    )
}

/// Formats a text, and compares what the compiler makes of both. Returns whether it could be formatted.
pub fn check(text: &str) -> bool {
    let before = load_str("before", text, &Options::default());
    let formatted = match format(text) {
        Ok(formatted) => formatted,
        Err(Error::Syntax(found)) => {
            assert!(before.has_errors() && !found.diagnostics.is_empty(), "{text}");
            return false;
        }
        Err(why) => panic!("{why}\n{text}"),
    };
    let after = load_str("after", &formatted, &Options::default());
    let codes = |found: &[lang::Diagnostic]| {
        let mut codes: Vec<&str> = found.iter().map(|d| d.code).collect();
        codes.sort_unstable();
        codes.join(" ")
    };
    assert_eq!(codes(&before.diagnostics), codes(&after.diagnostics), "{text}\nbecomes\n{formatted}");
    assert_eq!(
        before.graph.as_ref().map(essence),
        after.graph.as_ref().map(essence),
        "{text}\nbecomes\n{formatted}"
    );
    let again = format(&formatted).expect("it was formatted before");
    assert_eq!(again, formatted, "formatted twice:\n{text}");
    true
}
