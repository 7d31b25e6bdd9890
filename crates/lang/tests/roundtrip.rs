// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties over generated configurations: printing the flat graph and parsing it gives the same graph, and no text
//! makes the parser panic, hang or contradict itself.

use junctor_lang::{
    Connection, Element, Graph, Options, Parsed, PortRef, Span, load_str, render, render_click, to_json,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Elements, connections and requirements.
type Essence<'a> = (Vec<[&'a str; 3]>, Vec<(PortRef, PortRef)>, Vec<(&'a str, &'a str)>);

/// What must be equal of two graphs: all but places and the archive.
fn essence(graph: &Graph) -> Essence<'_> {
    (
        graph.elements.iter().map(|e| [e.name.as_str(), &e.class, &e.config]).collect(),
        graph.connections.iter().map(|c| (c.from, c.to)).collect(),
        graph.requirements.iter().map(|r| (r.kind.as_str(), r.value.as_str())).collect(),
    )
}

fn load(text: &str) -> Parsed {
    load_str("test", text, &Options::default())
}

/// Checks what holds for any text at all; returns whether it is a configuration.
fn check(text: &str) -> bool {
    let parsed = load(text);
    assert_eq!(parsed.graph.is_none(), parsed.has_errors(), "{text}");
    let rendered = render(&parsed.diagnostics, &parsed.sources, false);
    assert_eq!(rendered.is_empty(), parsed.diagnostics.is_empty());
    let _ = render_click(&parsed.diagnostics, &parsed.sources);
    let _ = to_json(&parsed.diagnostics, &parsed.sources);
    let Some(graph) = &parsed.graph else { return false };
    let flat = graph.to_click();
    let again = load(&flat);
    let Some(second) = &again.graph else {
        panic!(
            "{text}\nprints as\n{flat}\nwhich gives\n{}",
            render(&again.diagnostics, &again.sources, false)
        );
    };
    assert_eq!(essence(graph), essence(second), "{text}\nprints as\n{flat}");
    assert_eq!(flat, second.to_click());
    true
}

const NOWHERE: Span = Span { file: 0, start: 0, end: 0 };

/// A flat graph with any names, configurations and connections that the language can say.
fn graphs() -> impl Strategy<Value = Graph> {
    let name = "[a-z_@][a-zA-Z0-9_@]{0,3}(/[a-z][a-z0-9]{0,2}){0,2}";
    let config = prop_oneof![
        Just(String::new()),
        "[a-z0-9 ,]{1,12}",
        "[a-z,]{0,4}\\([a-z, ]{0,6}\\)[a-z]{0,3}",
        "\"([^\"\\\\$]|\\\\[\"\\\\])*\"",
        "'[^'$]{0,8}'",
        "\\\\<[0-9a-f ]{0,8}>, x",
        "a // [a-z)(]{0,5}\n b",
        "/\\* [a-z)('\"]{0,5} \\*/ x",
        "\\$[a-z]{1,3} \\$\\([a-z]{1,3} 1\\)",
    ];
    let element = (name, "[A-Z][a-z]{0,3}", config);
    let port = (any::<prop::sample::Index>(), 0..4usize);
    (vec(element, 1..12), vec((port.clone(), port), 0..24), vec("[a-z]{1,5}", 0..3)).prop_map(
        |(elements, wires, requirements)| {
            let mut graph = Graph::default();
            for (name, class, config) in elements {
                let unusable = ["define", "require", "provide", "elementclass"].contains(&name.as_str());
                if !unusable && graph.elements.iter().all(|e| e.name != name) {
                    graph.elements.push(Element {
                        name: name.into(),
                        class: class.into(),
                        config: config.into(),
                        span: NOWHERE,
                        class_span: NOWHERE,
                        config_span: None,
                    });
                }
            }
            let count = graph.elements.len();
            for ((from, p), (to, q)) in wires.into_iter().filter(|_| count > 0) {
                graph.connections.push(Connection {
                    from: PortRef { element: from.index(count), port: p },
                    to: PortRef { element: to.index(count), port: q },
                    span: NOWHERE,
                });
            }
            graph.connections.sort_by_key(|c| (c.from, c.to));
            graph.connections.dedup_by_key(|c| (c.from, c.to));
            graph.requirements = requirements
                .into_iter()
                .map(|value| junctor_lang::Requirement { kind: "package".into(), value, span: NOWHERE })
                .collect();
            graph
        },
    )
}

/// A chain of connections written with every convenience, with the connections that it must come to. These are worked out from the writing
/// rather than by the parser's rules.
#[derive(Clone, Debug)]
enum Link {
    /// `-> x :: X`
    Plain,
    /// `[p] -> [q] x :: X`
    Ports(u32, u32),
    /// `-> ( -> x :: X -> )`
    Group,
    /// `-> x :: { -> y :: X -> }`
    Compound,
    /// `-> x :: Named(n)` with `elementclass Named { $n | -> y :: X($n) -> }`
    Class(u32),
    /// `-> { -> } -> x :: X`
    Nothing,
    /// `-> x :: X, y :: X`, joined again by the next link.
    Fan,
}

fn links() -> impl Strategy<Value = Vec<Link>> {
    let link = prop_oneof![
        Just(Link::Plain),
        (0..5u32, 0..5u32).prop_map(|(p, q)| Link::Ports(p, q)),
        Just(Link::Group),
        Just(Link::Compound),
        (0..100u32).prop_map(Link::Class),
        Just(Link::Nothing),
        Just(Link::Fan),
    ];
    // The last link is plain: a compound's output may not be left unused.
    vec(link, 0..10).prop_map(|mut links| {
        links.push(Link::Plain);
        links
    })
}

/// The text of a chain, its connections `from [p] -> [q] to`, and the configurations of its elements.
fn write_chain(links: &[Link]) -> (String, Vec<(String, u32, u32, String)>) {
    let mut text = String::from("elementclass Named { $n | -> y :: X($n) -> }\ns :: S");
    let mut wires = Vec::new();
    let mut last = vec!["s".to_string()];
    let mut many_outputs = true;
    for (i, link) in links.iter().enumerate() {
        let x = format!("x{i}");
        let (written, ports, next) = match link {
            Link::Plain => (format!(" -> {x} :: X"), (0, 0), vec![x]),
            // A fan or a compound has output 0 only.
            Link::Ports(p, q) if many_outputs => (format!(" [{p}] -> [{q}] {x} :: X"), (*p, *q), vec![x]),
            Link::Ports(_, q) => (format!(" -> [{q}] {x} :: X"), (0, *q), vec![x]),
            Link::Group => (format!(" -> ( -> {x} :: X -> )"), (0, 0), vec![x]),
            Link::Compound => (format!(" -> {x} :: {{ -> y :: X -> }}"), (0, 0), vec![format!("{x}/y")]),
            Link::Class(n) => (format!(" -> {x} :: Named({n})"), (0, 0), vec![format!("{x}/y")]),
            Link::Nothing => (format!(" -> {{ -> }} -> {x} :: X"), (0, 0), vec![x]),
            Link::Fan if last.len() == 1 => {
                (format!(" -> {x} :: X, {x}b :: X"), (0, 0), vec![x.clone(), format!("{x}b")])
            }
            Link::Fan => (format!(" -> {x} :: X"), (0, 0), vec![x]),
        };
        many_outputs = next.len() == 1 && !matches!(link, Link::Group | Link::Compound | Link::Class(_));
        text.push_str(&written);
        for from in &last {
            for to in &next {
                wires.push((from.clone(), ports.0, ports.1, to.clone()));
            }
        }
        last = next;
    }
    (text, wires)
}

/// Text that looks like the language but need not be it.
fn token_soup() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "a",
        "b",
        "x/y",
        "Idle",
        "Null",
        "X",
        "input",
        "output",
        "elementclass",
        "require",
        "define",
        "provide",
        "->",
        "=>",
        "::",
        "||",
        "...",
        "|",
        "[",
        "]",
        "[0]",
        "[1]",
        "[0,1]",
        "[]",
        "[1-]",
        "(",
        ")",
        "{",
        "}",
        ",",
        ";",
        ";",
        "$a",
        "$",
        "a :: X",
        "b :: { -> }",
        "-> X ->",
        "(1, 2)",
        "($a)",
        "(library x)",
        "($a 1)",
        "'",
        "\"",
        "\\<",
        "/*",
        "*/",
        "//",
        "\n",
        "\n# 3 \"f\"\n",
        "\n#x\n",
        "elementclass X {",
        "{ $a |",
        "{ __REST__ $r |",
        "é",
        "0",
        "70000",
    ]);
    vec((token, prop::bool::ANY), 0..60).prop_map(|tokens| {
        tokens.into_iter().map(|(t, space)| if space { format!("{t} ") } else { t.to_string() }).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn graphs_survive_printing(graph in graphs()) {
        let parsed = load(&graph.to_click());
        let text = graph.to_click();
        let second = parsed.graph.as_ref().ok_or_else(|| {
            TestCaseError::fail(format!("{text}\n{}", render(&parsed.diagnostics, &parsed.sources, false)))
        })?;
        prop_assert_eq!(essence(&graph), essence(second), "{}", text);
        // Given the classes that exist, the reader comes to the same.
        let classes = graph.elements.iter().map(|e| e.class.to_string()).collect();
        let told = load_str("test", &text, &Options { classes, ..Options::default() });
        prop_assert_eq!(told.graph.as_ref().map(essence), Some(essence(&graph)), "{}", text);
    }

    #[test]
    fn conveniences_come_to_plain_connections(links in links()) {
        let (text, mut want) = write_chain(&links);
        let parsed = load(&text);
        let graph = parsed.graph.as_ref().ok_or_else(|| {
            TestCaseError::fail(format!("{text}\n{}", render(&parsed.diagnostics, &parsed.sources, false)))
        })?;
        let name = |port: PortRef| graph.elements[port.element].name.to_string();
        let mut got: Vec<_> = graph
            .connections
            .iter()
            .map(|c| (name(c.from), c.from.port as u32, c.to.port as u32, name(c.to)))
            .collect();
        got.sort();
        want.sort();
        prop_assert_eq!(got, want, "{}", text);
        prop_assert!(check(&text));
    }

    #[test]
    fn token_soup_is_survived(text in token_soup()) {
        check(&text);
    }

    #[test]
    fn any_text_is_survived(text in "(\\PC|[\\n\\r(){}\\[\\]\"'$/\\\\<>,;:=|.#-]){0,80}") {
        check(&text);
    }
}
