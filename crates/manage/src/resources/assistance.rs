// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the language server knows of a place in a configuration: what may be written there, and what the word there means. Each question has
//! a server of its own (`junctor lsp`), which ends with its answer, so nothing of a text is kept.

use std::time::Duration;

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::jobs;
use crate::problem::{Kind, Problem};
use crate::route::{Method, Role, Route};
use crate::schema::{list, object, with};

/// How long the language server may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Lines of a text, and columns of a line.
const MOST: u64 = 1 << 24;
/// The name of the text. It lies in no folder, so no library next to it is read.
const URI: &str = "untitled:configuration.click";

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/api/v1/configurations/completion",
        "What may be written at a place of a configuration.",
        items_schema,
        complete,
    )
    .by(Method::Post, Role::Operator)
    .with_body(body),
    Route::get(
        "/api/v1/configurations/hover",
        "What the word at a place of a configuration means.",
        text_schema,
        explain,
    )
    .by(Method::Post, Role::Operator)
    .with_body(body),
];

fn body() -> Value {
    object(&[
        "text:string The configuration.",
        "line:integer The line, from 1 on.",
        "column:integer The column, from 1 on, in units of UTF-16.",
    ])
}

fn items_schema() -> Value {
    let item = object(&[
        "label:string What is written.",
        "kind:integer What it is, as the Language Server Protocol numbers kinds.",
        "detail:string What it is for.",
    ]);
    with(object(&[]), "items", list(item))
}

fn text_schema() -> Value {
    object(&["text:string? Its manual or declaration, as Markdown; null if there is no word."])
}

/// A message with its header.
fn framed(message: &Value) -> String {
    let text = message.to_string();
    format!("Content-Length: {}\r\n\r\n{text}", text.len())
}

/// The messages of a session with one question, whose number is 2.
fn session(method: &str, text: &str, line: u64, column: u64) -> String {
    let document = json!({ "uri": URI, "languageId": "click", "version": 1, "text": text });
    let place =
        json!({ "textDocument": { "uri": URI }, "position": { "line": line - 1, "character": column - 1 } });
    [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "capabilities": {} } }),
        json!({ "jsonrpc": "2.0", "method": "initialized", "params": {} }),
        json!({ "jsonrpc": "2.0", "method": "textDocument/didOpen", "params": { "textDocument": document } }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": place }),
        json!({ "jsonrpc": "2.0", "id": 3, "method": "shutdown" }),
        json!({ "jsonrpc": "2.0", "method": "exit" }),
    ]
    .iter()
    .map(framed)
    .collect()
}

/// The result with number 2 among the messages of a server.
fn result(mut output: &str) -> Option<Value> {
    while let Some((header, rest)) = output.split_once("\r\n\r\n") {
        let length = header.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok())?;
        let message: Value = serde_json::from_str(rest.get(..length)?).ok()?;
        if message["id"] == 2 {
            return message.get("result").cloned();
        }
        output = &rest[length..];
    }
    None
}

fn ask(call: &Call, method: &str) -> Result<Value, Problem> {
    call.only(&body())?;
    let missing = |name: &str| {
        Problem::invalid(format!("body: {name}"), "it is missing", format!("send the field {name}"))
    };
    let text = call.text("text")?.ok_or_else(|| missing("text"))?;
    let line = call.count("line", MOST)?.ok_or_else(|| missing("line"))?;
    let column = call.count("column", MOST)?.ok_or_else(|| missing("column"))?;
    let mut command = call.shared.routers.command(None, &["lsp".to_owned()], &[])?;
    // Libraries of the service's user are nothing that a text may ask for.
    command.env_remove("CLICKPATH");
    let (_, output, words) = jobs::run(&mut command, &session(method, text, line, column), PATIENCE)
        .map_err(|why| why.if_late("send a smaller configuration"))?;
    result(&output).ok_or_else(|| {
        let said = crate::words::shown(&words);
        Problem::new(Kind::Internal, format!("the language server's answer is not understood: {said}"))
    })
}

fn complete(call: &Call) -> Result<Answer, Problem> {
    let found = ask(call, "textDocument/completion")?;
    let mut items: Vec<&Value> = found["items"].as_array().into_iter().flatten().collect();
    items.sort_by_key(|item| item["sortText"].as_str().unwrap_or_default());
    let plain = |item: &Value| {
        let text = |name: &str| item[name].as_str().unwrap_or_default();
        json!({ "label": text("label"), "kind": item["kind"], "detail": text("detail") })
    };
    Ok(json!({ "items": items.into_iter().map(plain).collect::<Vec<_>>() }).into())
}

fn explain(call: &Call) -> Result<Answer, Problem> {
    let found = ask(call, "textDocument/hover")?;
    Ok(json!({ "text": found.pointer("/contents/value") }).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_found_among_messages() {
        let check = |messages: &[Value], expected: Option<Value>| {
            let output: String = messages.iter().map(framed).collect();
            assert_eq!(result(&output), expected, "{output}");
            // What was cut off is no answer, and no panic.
            for end in 0..output.len() {
                if let Some(part) = output.get(..end) {
                    let _ = result(part);
                }
            }
        };
        let first = json!({ "id": 1, "result": {} });
        let notice = json!({ "method": "textDocument/publishDiagnostics", "params": { "text": "\u{e9}" } });
        check(
            &[first.clone(), notice, json!({ "id": 2, "result": { "items": [] } })],
            Some(json!({ "items": [] })),
        );
        check(&[first.clone(), json!({ "id": 2, "error": {} })], None);
        check(&[first], None);
        assert_eq!(result("Content-Length: x\r\n\r\n{}"), None);
        assert_eq!(result("nonsense"), None);
    }
}
