// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adversarial input ends in a message, on a small stack and in bounded memory.

use std::fmt::Write as _;

use junctor_lang::{Options, load_str, render};

/// Reads a text on a thread with little stack; returns the codes of its errors and the number of elements.
fn read(text: String) -> (Vec<&'static str>, usize) {
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
        let parsed = load_str("test", &text, &Options::default());
        let _ = render(&parsed.diagnostics[..parsed.diagnostics.len().min(20)], &parsed.sources, false);
        let elements = parsed.graph.as_ref().map_or(0, |g| g.elements.len());
        (parsed.diagnostics.iter().map(|d| d.code).collect(), elements)
    });
    thread.expect("threads can be started").join().expect("no panic and no overflow")
}

#[track_caller]
fn check(text: String, codes: &[&str], elements: usize) {
    assert_eq!(read(text), (codes.to_vec(), elements));
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, i| {
        let _ = writeln!(text, "{}", line(i));
        text
    })
}

#[test]
fn nesting() {
    let nested =
        |open: &str, close: &str, n: usize| format!("Idle -> {}N{} -> D;", open.repeat(n), close.repeat(n));
    check(nested("{ -> ", " -> }", 64), &[], 3);
    check(nested("( -> ", " -> )", 64), &[], 3);
    check(nested("{ -> ", " -> }", 65), &["E0105"], 0);
    check(nested("( -> ", " -> )", 10_000), &["E0105"], 0);
    check(nested("{ -> ( ->", " -> ) -> }", 32), &[], 3);
    for open in ["{", "(", "{->", "x :: {", "[", "a :: A(", "elementclass A {", "$(", "\\<", "a, "] {
        let (codes, elements) = read(open.repeat(20_000));
        assert!(!codes.is_empty() && elements == 0, "{open}");
    }
}

#[test]
fn classes_within_classes() {
    let tower = |n: usize| {
        let class = |i: usize| format!("elementclass C{} {{ -> C{i} -> }}", i + 1);
        format!("elementclass C0 {{ -> N -> }}\n{}Idle -> C{n} -> D;", lines(n, class))
    };
    check(tower(100), &[], 3);
    check(tower(5_000), &["E0105"], 0);
    let doubling = |i: usize| format!("elementclass C{} {{ C{i}; C{i} }}", i + 1);
    check(format!("elementclass C0 {{ N }}\n{}C60", lines(60, doubling)), &["E0505"], 0);
    let empty = |i: usize| format!("elementclass C{} {{ {} }}", i + 1, format!("C{i};").repeat(64));
    check(format!("elementclass C0 {{ }}\n{}C9", lines(9, empty)), &["E0505"], 0);
    let arguments = |i: usize| format!("elementclass C{} {{ $a | C{i}($a$a) }}", i + 1);
    check(format!("elementclass C0 {{ $a | N($a) }}\n{}C60(x)", lines(60, arguments)), &["E0505"], 0);
}

#[test]
fn connections() {
    // Each pass-through doubles the ways, but not the connections.
    let text = format!("elementclass P {{ -> ; -> [1] }} x :: S{} -> d :: D;", " -> P [0, 1]".repeat(200));
    check(text, &[], 2);
    check(format!("elementclass P {{ -> }} s :: S{} -> D;", " -> P".repeat(50_000)), &[], 2);
    let many = (0..2_000).map(|i| format!("s{i} :: S -> p; p -> d{i} :: D;")).collect::<String>();
    check(format!("p :: {{ -> }};\n{many}"), &["E0505"], 0);
    check("a :: A => [0-65535] a".into(), &[], 1);
    check("a :: A [0-65535] => [0-] b :: B".into(), &[], 2);
    check("a :: A; a [0-65535,0] -> a".into(), &[], 1);
}

#[test]
fn circles() {
    check("elementclass P { -> } a :: P -> b :: P -> c :: P -> a; s :: S -> a; c -> d :: D".into(), &[], 2);
    check("define($a $b, $b $a) X($a)".into(), &[], 1);
    check("define($a $a) X($a)".into(), &[], 1);
    check("define($a $b $b, $b $a $a) X($a)".into(), &[], 1);
    check("define($a $b $b $b $b $b $b, $b $a $a $a $a $a $a) X($a)".into(), &[], 1);
}

#[test]
fn long_texts() {
    check(format!("{} :: A", "a".repeat(1 << 18)), &[], 1);
    check(format!("a :: A({})", "x, ".repeat(1 << 18)), &[], 1);
    check("Idle -> Discard;\n".repeat(30_000), &[], 60_000);
    check(lines(30_000, |i| format!("a{i} :: A;")), &[], 30_000);
    let (codes, _) = read("] ".repeat(1 << 18));
    assert_eq!(codes, ["E0101"]);
    let (codes, _) = read("a -> ;\n ".repeat(1 << 18));
    assert_eq!(codes.len(), 1001);
}
