// SPDX-License-Identifier: MIT OR Apache-2.0
//! Classes whose bodies are written to order.

use junctor_lang::{Fault, Options, Template, Use, load_str, render};

/// A chain of as many counters as the argument says, joined to what is around it.
fn chain(request: &Use<'_>) -> Result<String, Vec<Fault>> {
    let [count] = request.args else {
        return Err(vec![Fault::new(None, "one argument is needed", "write `Chain(2)`")]);
    };
    match count.parse::<usize>() {
        Ok(count) => Ok(format!("input {} -> output", "-> Counter ".repeat(count))),
        Err(_) if count == "broken" => Ok("input -> ".into()),
        Err(_) if count == "self" => Ok("input -> Chain(self) -> output".into()),
        Err(_) => Err(vec![Fault::new(Some(0), format!("'{count}' is no number"), "write a number")]),
    }
}

fn options() -> Options {
    Options { templates: vec![Template { name: "Chain", write: chain }], ..Options::default() }
}

fn flat(text: &str) -> String {
    let parsed = load_str("t", text, &options());
    let graph =
        parsed.graph.unwrap_or_else(|| panic!("{}", render(&parsed.diagnostics, &parsed.sources, false)));
    graph.elements.iter().map(|e| e.name.as_str()).collect::<Vec<_>>().join(" ")
}

fn wrong(text: &str) -> Vec<(&'static str, String, u32, u32)> {
    let parsed = load_str("t", text, &options());
    assert!(parsed.graph.is_none());
    let place = |d: &junctor_lang::Diagnostic| d.span.map_or((0, 0), |s| (s.start, s.end));
    parsed.diagnostics.iter().map(|d| (d.code, d.message.clone(), place(d).0, place(d).1)).collect()
}

#[test]
fn bodies_are_written_for_each_use() {
    let check = |text: &str, want: &str| assert_eq!(flat(text), want, "{text}");
    check("a :: Idle -> c :: Chain(2) -> d :: Discard", "a d c/Counter@1 c/Counter@2");
    check("a :: Idle -> Chain(0) -> d :: Discard; b :: Idle -> Chain(1) -> d", "a d b Chain@5/Counter@1");
    check("define($n 1); a :: Idle -> c :: Chain($n) -> d :: Discard", "a d c/Counter@1");
    check(
        "elementclass Two { $n | input -> x :: Chain($n) -> Chain(1) -> output }
         a :: Idle -> t :: Two(1) -> d :: Discard",
        "a d t/x/Counter@1 t/Chain@2/Counter@1",
    );
    // What the configuration defines goes first, and may fall back to the template.
    check(
        "elementclass Chain { input -> Null -> output } a :: Idle -> c :: Chain -> d :: Discard",
        "a d c/Null@1",
    );
    check(
        "elementclass Chain { input -> Null -> output || ... } a :: Idle -> c :: Chain(1) -> d :: Discard",
        "a d c/Counter@1",
    );
    // Inside, classes of the configuration are not seen.
    check(
        "elementclass Counter { input -> Null -> output } a :: Idle -> Counter -> c :: Chain(1) -> d :: Discard",
        "a d Counter@2/Null@1 c/Counter@1",
    );
}

#[test]
fn faults_point_at_the_use() {
    let text = "Idle -> Chain( /* how many */ many /* ? */ ) -> Discard";
    assert_eq!(wrong(text), [("E0409", "Chain@2: 'many' is no number".to_owned(), 30, 34)]);
    let text = "define($n two); Idle -> Chain($n) -> Discard";
    assert_eq!(wrong(text), [("E0409", "Chain@2: 'two' is no number".to_owned(), 30, 32)]);
    let text = "Idle -> Chain -> Discard";
    assert_eq!(wrong(text), [("E0409", "Chain@2: one argument is needed".to_owned(), 8, 13)]);
    let found = wrong("Idle -> Chain(broken) -> Discard");
    assert!(found.iter().all(|f| f.0 == "E0410" && (f.2, f.3) == (8, 13)), "{found:?}");
    let found = wrong("Idle -> Chain(self) -> Discard");
    assert!(found.iter().any(|f| f.0 == "E0105"), "{found:?}");
    // Ports that the body has not are complained about as with any compound.
    let found = wrong("Idle -> [1] c :: Chain(1) -> Discard; Idle -> c");
    assert!(!found.is_empty());
}
