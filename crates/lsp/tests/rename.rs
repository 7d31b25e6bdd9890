// SPDX-License-Identifier: MIT OR Apache-2.0
//! A name that is changed changes nothing else: the compiler makes the same graph of both texts.

use std::cell::Cell;
use std::time::Duration;

use junctor_lsp::{Connection, Settings, serve};
use lang::{Options, load_str};
use lsp_server::{Message, Notification, Request, RequestId};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

/// What every text begins with.
const BEGIN: &str = "q :: Queue($n); p, s :: B; Idle -> x :: { -> q :: A -> s :: E -> q2 :: E -> } -> E";

const STATEMENTS: &[&str] = &[
    "Idle -> r :: { $n, K $m | -> Queue($n) -> q :: C($m) -> }(1, K 2) -> q",
    "define($n 5)",
    "define($m $n, $o 3)",
    "elementclass A { -> q :: Queue($n) -> }",
    "elementclass A { -> A -> }",
    "elementclass A { -> q :: A -> q1 :: D(1) -> }",
    "elementclass D { $n | -> Queue($n) -> || $n, $m | -> q :: Queue(${m-$n}) -> }",
    "elementclass B A",
    "elementclass C { $q | -> D($q) -> }",
    "Idle -> A -> q",
    "Idle -> D(1, 2) -> C(\"$n\") -> s",
    "Idle -> { -> q :: A -> x :: B -> } -> E",
    "x -> (-> q -> ) -> p",
    "Script(print q.length, write x/q.reset $n)",
];

/// A text, and where in it a name is.
fn cases() -> impl Strategy<Value = (String, usize)> {
    let words = prop::sample::subsequence(STATEMENTS.to_vec(), 1..9).prop_shuffle();
    words.prop_map(|all| format!("{BEGIN}; {}", all.join("; "))).prop_flat_map(|text| {
        let length = text.len();
        (Just(text), 0..length)
    })
}

/// What must be equal: classes, connections, and arguments if a variable's name is changed.
fn essence(text: &str, with_arguments: bool) -> Value {
    let parsed = load_str("t", text, &Options::default());
    let mut codes: Vec<&str> = parsed.diagnostics.iter().map(|found| found.code).collect();
    codes.sort_unstable();
    let graph = parsed.graph.map(|graph| {
        let elements: Vec<_> = graph
            .elements
            .iter()
            .map(|e| (e.class.to_string(), with_arguments.then(|| e.config.to_string())))
            .collect();
        let connections: Vec<_> = graph
            .connections
            .iter()
            .map(|c| [c.from.element, c.from.port, c.to.element, c.to.port])
            .collect();
        json!([elements, connections])
    });
    json!([codes, graph])
}

/// Applies the edits of a text that is one ASCII line, from the last one to the first.
fn edited(text: &str, edits: &Value) -> String {
    let mut text = text.to_owned();
    for edit in edits.as_array().expect("edits").iter().rev() {
        let at = |end: &str| edit["range"][end]["character"].as_u64().expect("a column") as usize;
        text.replace_range(at("start")..at("end"), edit["newText"].as_str().expect("a text"));
    }
    text
}

#[test]
fn graphs_stay() {
    const URI: &str = "file:///a.click";
    let (server, client) = Connection::memory();
    let serving = std::thread::spawn(move || serve(&server, &Settings::default()));
    let notify = |method: &str, parameters: Value| {
        client.sender.send(Notification::new(method.into(), parameters).into()).expect("the server lives");
    };
    let request = |method: &str, parameters: Value| {
        let request = Request::new(RequestId::from(1), method.into(), parameters);
        client.sender.send(request.into()).expect("the server lives");
        loop {
            let message = client.receiver.recv_timeout(Duration::from_secs(120)).expect("the server lives");
            if let Message::Response(response) = message {
                return response.response_result;
            }
        }
    };
    request("initialize", json!({ "capabilities": {} })).expect("initialized");
    notify("initialized", json!({}));
    let changed = Cell::new(0);
    let config = ProptestConfig {
        cases: 4000,
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let ran = TestRunner::new(config).run(&cases(), |(text, at)| {
        let document = json!({ "uri": URI, "languageId": "click", "version": 1, "text": text });
        notify("textDocument/didOpen", json!({ "textDocument": document }));
        let mut parameters = json!({
            "textDocument": { "uri": URI },
            "position": { "line": 0, "character": at },
        });
        let Ok(prepared) = request("textDocument/prepareRename", parameters.clone()) else { return Ok(()) };
        let start = prepared["range"]["start"]["character"].as_u64().expect("a column") as usize;
        let is_class = text[start..].starts_with(|c: char| c.is_ascii_uppercase());
        parameters["newName"] = if is_class { "Other" } else { "other" }.into();
        let renamed = request("textDocument/rename", parameters).expect("a name that nothing has");
        let new = edited(&text, &renamed["changes"][URI]);
        let is_variable = text[..start].ends_with(['$', '{']);
        // Of a name that is declared twice, the server follows one declaration.
        let before = essence(&text, is_variable);
        if before[1].is_null() {
            return Ok(());
        }
        prop_assert_eq!(before, essence(&new, is_variable), "{}\nbecomes\n{}", text, new);
        changed.set(changed.get() + 1);
        Ok(())
    });
    ran.expect("graphs stay");
    assert!(changed.get() > 50, "{}", changed.get());
    request("shutdown", Value::Null).expect("an answer");
    notify("exit", Value::Null);
    serving.join().expect("no panic").expect("a proper end");
}
