// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions of an editor with the server, written as text.
//!
//! ```text
//! open a.click                the lines behind `| ` are the text
//! | Idle -> Discard;
//! change 0:0-0:4 "Null"       of the text opened last; without a range all of it
//! problems [...]              what is wrong with it, once it is checked
//! ask hover 0:8 {...}         a request about a place, and what the answer must hold
//! ask rename 0:8 +{...} {...} the same with more parameters
//! refused rename 0:8 ...      the answer is an error with this message
//! ```
//!
//! An expected object may leave members out, and an expected string that begins with `~` is part of the real one. The last
//! item of an expected array may be `"..."`: others may follow. `"has"` as its first item means that each of the rest is somewhere in the real one.

use std::time::Duration;

use junctor_lsp::{Connection, Settings, serve};
use lsp_server::{Message, Notification, Request, Response};
use serde_json::{Value, json};

/// Nobody waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a session in the folder `root`.
pub fn check_in(root: &str, session: &str) {
    let (server, client) = Connection::memory();
    let serving = std::thread::spawn(move || serve(&server, &Settings::default()));
    let mut editor = Editor { client, root: root.to_owned(), uri: String::new(), version: 0, id: 0 };
    editor.begin();
    let mut lines = session.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        let mut text = String::new();
        while let Some(more) = lines.next_if(|line| line.starts_with('|')) {
            text.push_str(more.strip_prefix("| ").unwrap_or(&more[1..]));
            text.push('\n');
        }
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            "open" => editor.open(rest, &text),
            "change" => editor.change(rest),
            "problems" => editor.problems(&parsed(rest)),
            "ask" | "refused" => editor.ask(rest, verb == "ask"),
            _ => panic!("what is '{line}'?"),
        }
    }
    editor.end();
    serving.join().expect("no panic").expect("a proper end");
}

/// Runs a session in a folder that does not exist.
pub fn check(session: &str) {
    check_in("/no-such-project", session);
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

fn place(text: &str) -> Value {
    let (line, character) = text.split_once(':').unwrap_or_else(|| panic!("no place: {text}"));
    let number = |text: &str| text.parse::<u32>().unwrap_or_else(|why| panic!("{why}: {text}"));
    json!({ "line": number(line), "character": number(character) })
}

struct Editor {
    client: Connection,
    root: String,
    uri: String,
    version: i64,
    id: i32,
}

impl Editor {
    fn notify(&self, method: &str, parameters: Value) {
        self.client.sender.send(Notification::new(method.into(), parameters).into()).expect("a server");
    }

    fn receive(&self) -> Message {
        self.client.receiver.recv_timeout(PATIENCE).expect("an answer")
    }

    fn request(&mut self, method: &str, parameters: Value) -> Response {
        self.id += 1;
        let request = Request::new(self.id.into(), method.into(), parameters);
        self.client.sender.send(request.into()).expect("a server");
        loop {
            if let Message::Response(response) = self.receive() {
                assert_eq!(response.id, self.id.into());
                return response;
            }
        }
    }

    fn begin(&mut self) {
        let root = format!("file://{}", self.root);
        let answer = self.request("initialize", json!({ "capabilities": {}, "rootUri": root }));
        let answer = answer.response_result.expect("initialized");
        assert!(answer.pointer("/capabilities/hoverProvider").is_some(), "{answer}");
        self.notify("initialized", json!({}));
    }

    fn end(&mut self) {
        assert!(self.request("shutdown", Value::Null).response_result.is_ok());
        self.notify("exit", Value::Null);
    }

    fn open(&mut self, name: &str, text: &str) {
        self.uri = format!("file://{}/{name}", self.root);
        self.version = 1;
        let document = json!({ "uri": self.uri, "languageId": "", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    fn change(&mut self, rest: &str) {
        self.version += 1;
        let change = match rest.split_once(' ').filter(|_| !rest.starts_with('"')) {
            Some((range, text)) => {
                let (start, end) = range.split_once('-').unwrap_or((range, range));
                json!({ "range": { "start": place(start), "end": place(end) }, "text": parsed(text) })
            }
            None => json!({ "text": parsed(rest) }),
        };
        let document = json!({ "uri": self.uri, "version": self.version });
        self.notify(
            "textDocument/didChange",
            json!({ "textDocument": document, "contentChanges": [change] }),
        );
    }

    /// Waits for what is wrong with the text as it is now.
    fn problems(&self, want: &Value) {
        loop {
            let Message::Notification(found) = self.receive() else { continue };
            let is_this = found.params["uri"] == self.uri.as_str() && found.params["version"] == self.version;
            if is_this {
                return matches(&found.params["diagnostics"], want);
            }
        }
    }

    fn ask(&mut self, rest: &str, is_answered: bool) {
        let (method, rest) = rest.split_once(' ').expect("a method and a place");
        let (at, mut rest) = rest.split_once(' ').expect("a place and an answer");
        let mut parameters = json!({ "textDocument": { "uri": self.uri } });
        let (start, end) = at.split_once('-').unwrap_or((at, at));
        parameters["position"] = place(start);
        parameters["range"] = json!({ "start": place(start), "end": place(end) });
        if let Some(more) = rest.strip_prefix('+') {
            let mut values = serde_json::Deserializer::from_str(more).into_iter::<Value>();
            let Some(Ok(Value::Object(members))) = values.next() else { panic!("no parameters: {more}") };
            rest = &more[values.byte_offset()..];
            parameters.as_object_mut().expect("an object").extend(members);
        }
        let response = self.request(&format!("textDocument/{method}"), parameters);
        match response.response_result {
            Ok(answer) if is_answered => matches(&answer, &parsed(rest)),
            Err(error) if !is_answered => assert!(error.message.contains(rest.trim()), "{}", error.message),
            other => panic!("{method} {at}: {other:?}"),
        }
    }
}

/// Holds a value against what is expected of it.
fn matches(value: &Value, want: &Value) {
    assert!(is_match(value, want), "\n{}\nis not\n{want:#}", serde_json::to_string_pretty(value).unwrap());
}

fn is_match(value: &Value, want: &Value) -> bool {
    match (value, want) {
        (Value::Object(value), Value::Object(want)) => {
            want.iter().all(|(key, want)| value.get(key).is_some_and(|value| is_match(value, want)))
        }
        (Value::Array(value), Value::Array(want)) => match (want.first(), want.last()) {
            (Some(Value::String(first)), _) if first == "has" => {
                want[1..].iter().all(|want| value.iter().any(|value| is_match(value, want)))
            }
            (Some(Value::String(first)), _) if first == "lacks" => {
                want[1..].iter().all(|want| value.iter().all(|value| !is_match(value, want)))
            }
            (_, Some(Value::String(last))) if last == "..." => {
                let want = &want[..want.len() - 1];
                value.len() >= want.len() && value.iter().zip(want).all(|(value, want)| is_match(value, want))
            }
            _ => {
                value.len() == want.len() && value.iter().zip(want).all(|(value, want)| is_match(value, want))
            }
        },
        (Value::String(value), Value::String(want)) => match want.strip_prefix('~') {
            Some(part) => value.contains(part),
            None => value == want,
        },
        _ => value == want,
    }
}
