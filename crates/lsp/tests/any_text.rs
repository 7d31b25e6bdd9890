// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any text, any place in it, any request: each gets an answer, and the server lives on.

use std::time::Duration;

use junctor_lsp::{Connection, Settings, serve};
use lsp_server::{Message, Notification, Request, RequestId, Response};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

const REQUESTS: [&str; 11] = [
    "completion",
    "hover",
    "definition",
    "references",
    "documentHighlight",
    "prepareRename",
    "rename",
    "documentSymbol",
    "formatting",
    "semanticTokens/full",
    "codeAction",
];

const WORDS: &[&str] = &[
    "a",
    "q :: Queue($n)",
    "elementclass C { $n | ",
    "define($n 1)",
    "Script(print q.length)",
    "Script(write a/b.",
    "-> ",
    "::",
    " { ",
    " } ",
    "(",
    ")",
    "[",
    "]",
    "[1]",
    "||",
    "|",
    ",",
    ";",
    "$n",
    "${n-1}",
    "$",
    "'",
    "\"",
    "\\<",
    "// ",
    "/*",
    "*/",
    "\n",
    "\r\n",
    "\r",
    "# 3 \"f\"",
    " ",
    "\t",
    "\u{feff}",
    "\u{e9}",
    "\u{1f600}",
    "input",
    "Discrad",
    "zone inside eth1\n",
    "accept from inside to self\n",
    "translate 10.0.0.0/8 to 192.0.2.1\n",
];

/// A text, where a part of it is replaced by which, and a place.
fn cases() -> impl Strategy<Value = (String, [u32; 4], String, [u32; 2])> {
    let text = |most: usize| {
        prop::collection::vec(prop::sample::select(WORDS), 0..most).prop_map(|words| words.concat())
    };
    (text(24), prop::array::uniform4(0..12u32), text(4), prop::array::uniform2(0..20u32))
}

fn answer(client: &Connection, id: &RequestId) -> Response {
    loop {
        match client.receiver.recv_timeout(Duration::from_secs(120)).expect("the server lives") {
            Message::Response(response) if response.id == *id => return response,
            _ => {}
        }
    }
}

#[test]
fn every_request_is_answered() {
    let (server, client) = Connection::memory();
    let serving = std::thread::spawn(move || serve(&server, &Settings::default()));
    let notify = |method: &str, parameters: Value| {
        client.sender.send(Notification::new(method.into(), parameters).into()).expect("the server lives");
    };
    let request = |id: i32, method: &str, parameters: Value| {
        let id = RequestId::from(id);
        let request = Request::new(id.clone(), method.into(), parameters);
        client.sender.send(request.into()).expect("the server lives");
        answer(&client, &id)
    };
    request(0, "initialize", json!({ "capabilities": {} }));
    notify("initialized", json!({}));
    let config = ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() };
    let ran = TestRunner::new(config).run(&cases(), |(text, [a, b, c, d], new, [line, character])| {
        for uri in ["file:///a.click", "file:///a.fw", "file:///a.nat"] {
            let document = json!({ "uri": uri, "languageId": "", "version": 1, "text": text });
            notify("textDocument/didOpen", json!({ "textDocument": document }));
            let (start, end) = (json!({ "line": a, "character": b }), json!({ "line": c, "character": d }));
            let change = json!({ "range": { "start": start, "end": end }, "text": new });
            let document = json!({ "uri": uri, "version": 2 });
            notify("textDocument/didChange", json!({ "textDocument": document, "contentChanges": [change] }));
            let place = json!({ "line": line, "character": character });
            for method in REQUESTS {
                let parameters = json!({
                    "textDocument": { "uri": uri },
                    "position": place,
                    "range": { "start": place, "end": end },
                    "newName": "other",
                });
                request(1, &format!("textDocument/{method}"), parameters);
            }
            notify("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
        }
        Ok(())
    });
    ran.expect("every request is answered");
    request(2, "shutdown", Value::Null);
    notify("exit", Value::Null);
    serving.join().expect("no panic").expect("a proper end");
}
