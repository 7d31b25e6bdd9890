// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages in, messages out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use serde_json::{Value, json};

use crate::check::{self, Libraries};
use crate::classes::Classes;
use crate::document::{Document, Language, path_of};
use crate::position::Position;
use crate::{actions, complete, hover, names, symbols, tokens};

/// How the server runs.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where required libraries are looked for, apart from the folders that are open.
    pub search_path: Vec<PathBuf>,
}

/// Why the server ends early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the editor sent is not what the protocol asks for.
    #[error("the editor broke the protocol: {0}")]
    Protocol(#[from] lsp_server::ProtocolError),
    /// Nobody is there any more.
    #[error("the editor is gone without 'shutdown' and 'exit'")]
    Gone,
}

/// Serves an editor until it asks for the end.
///
/// # Errors
/// The editor breaks the protocol, or is gone.
pub fn serve(connection: &Connection, settings: &Settings) -> Result<(), Error> {
    let (id, parameters) = connection.initialize_start()?;
    let answer = json!({
        "capabilities": capabilities(),
        "serverInfo": { "name": "junctor", "version": env!("CARGO_PKG_VERSION") },
    });
    connection.initialize_finish(id, answer)?;
    let registry = elements::registry();
    let libraries = Libraries { folders: folders(&parameters), search_path: settings.search_path.clone() };
    let classes = Classes::of(&registry);
    let mut server = Server { connection, registry, classes, libraries, documents: BTreeMap::new() };
    loop {
        let message = match connection.receiver.try_recv() {
            Ok(message) => message,
            // Nothing waits: this is the time to check what was edited, a text at a time.
            Err(_) if server.check_one()? => continue,
            Err(_) => connection.receiver.recv().map_err(|_| Error::Gone)?,
        };
        match message {
            Message::Request(request) if connection.handle_shutdown(&request)? => return Ok(()),
            Message::Request(request) => server.request(request)?,
            Message::Notification(notification) if notification.method == "exit" => return Err(Error::Gone),
            Message::Notification(notification) => server.notification(&notification)?,
            Message::Response(_) => {}
        }
    }
}

fn capabilities() -> Value {
    json!({
        "positionEncoding": "utf-16",
        "textDocumentSync": { "openClose": true, "change": 2 },
        "completionProvider": { "triggerCharacters": ["$", ".", "[", ":"], "resolveProvider": true },
        "hoverProvider": true,
        "definitionProvider": true,
        "referencesProvider": true,
        "documentHighlightProvider": true,
        "renameProvider": { "prepareProvider": true },
        "documentSymbolProvider": true,
        "documentFormattingProvider": true,
        "codeActionProvider": { "codeActionKinds": ["quickfix"] },
        "semanticTokensProvider": {
            "legend": { "tokenTypes": tokens::KINDS, "tokenModifiers": [] },
            "full": true,
        },
    })
}

/// The folders that the editor has open.
fn folders(parameters: &Value) -> Vec<PathBuf> {
    let folders = parameters.get("workspaceFolders").and_then(Value::as_array).into_iter().flatten();
    let all = folders.filter_map(|folder| folder.get("uri")).chain(parameters.get("rootUri"));
    all.filter_map(Value::as_str).filter_map(path_of).collect()
}

struct Server<'a> {
    connection: &'a Connection,
    registry: engine::Registry,
    classes: Classes,
    libraries: Libraries,
    /// By URI.
    documents: BTreeMap<String, Document>,
}

/// What is wrong with a request.
struct Refusal {
    code: ErrorCode,
    message: String,
}

impl From<String> for Refusal {
    fn from(message: String) -> Refusal {
        Refusal { code: ErrorCode::RequestFailed, message }
    }
}

fn text_of<'v>(value: &'v Value, path: &str) -> Option<&'v str> {
    value.pointer(path)?.as_str()
}

impl Server<'_> {
    fn send(&self, message: impl Into<Message>) -> Result<(), Error> {
        self.connection.sender.send(message.into()).map_err(|_| Error::Gone)
    }

    fn notify(&self, method: &str, parameters: Value) -> Result<(), Error> {
        self.send(Notification::new(method.to_owned(), parameters))
    }

    fn notification(&mut self, notification: &Notification) -> Result<(), Error> {
        let parameters = &notification.params;
        let uri = text_of(parameters, "/textDocument/uri").unwrap_or_default();
        let version = parameters.pointer("/textDocument/version").and_then(Value::as_i64).unwrap_or(0);
        match notification.method.as_str() {
            "textDocument/didOpen" => {
                let language = text_of(parameters, "/textDocument/languageId").unwrap_or_default();
                let text = text_of(parameters, "/textDocument/text").unwrap_or_default().to_owned();
                self.documents.insert(uri.to_owned(), Document::open(uri, language, version, text));
            }
            "textDocument/didChange" => {
                let Some(document) = self.documents.get_mut(uri) else { return Ok(()) };
                document.version = version;
                let changes = parameters.get("contentChanges").and_then(Value::as_array);
                for change in changes.into_iter().flatten() {
                    let place = |end: &str| Position::of(change.get("range")?.get(end)?);
                    let range = place("start").zip(place("end"));
                    document.replace(range, text_of(change, "/text").unwrap_or_default());
                }
            }
            "textDocument/didClose" if self.documents.remove(uri).is_some() => {
                self.notify("textDocument/publishDiagnostics", json!({ "uri": uri, "diagnostics": [] }))?;
            }
            // Libraries may have changed, too.
            "textDocument/didSave" => {
                self.documents.values_mut().for_each(|document| document.is_changed = true);
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks one of the texts that were edited; false if there is none.
    fn check_one(&mut self) -> Result<bool, Error> {
        let Some(document) = self.documents.values_mut().find(|document| document.is_changed) else {
            return Ok(false);
        };
        let checked = check::check(document, &self.libraries, &self.registry);
        let published = check::published(document, &checked);
        document.checked = Some(checked);
        document.is_changed = false;
        self.notify("textDocument/publishDiagnostics", published)?;
        Ok(true)
    }

    fn request(&mut self, request: Request) -> Result<(), Error> {
        let answer = match self.answer(&request.method, request.params) {
            Ok(answer) => Response::new_ok(request.id, answer),
            Err(refusal) => refused(request.id, refusal),
        };
        self.send(answer)
    }

    fn answer(&mut self, method: &str, parameters: Value) -> Result<Value, Refusal> {
        if method == "completionItem/resolve" {
            return Ok(complete::resolve(&self.classes, parameters));
        }
        if !method.starts_with("textDocument/") {
            let message = format!("'{method}' is not a request of this server");
            return Err(Refusal { code: ErrorCode::MethodNotFound, message });
        }
        let uri = text_of(&parameters, "/textDocument/uri").unwrap_or_default();
        let Some(document) = self.documents.get_mut(uri) else {
            return Err(Refusal { code: ErrorCode::InvalidParams, message: format!("'{uri}' is not open") });
        };
        if document.language != Language::Click {
            return Ok(Value::Null);
        }
        // What an element is connected to, and what may be fixed, comes from checking.
        let needs_check = ["textDocument/hover", "textDocument/definition", "textDocument/codeAction"];
        if document.checked.is_none() && needs_check.contains(&method) {
            document.checked = Some(check::check(document, &self.libraries, &self.registry));
        }
        self.about(method, &parameters, &self.documents[uri])
    }

    /// Answers a request about a configuration.
    fn about(&self, method: &str, parameters: &Value, document: &Document) -> Result<Value, Refusal> {
        let place = |path: &str| {
            parameters.pointer(path).and_then(Position::of).ok_or_else(|| Refusal {
                code: ErrorCode::InvalidParams,
                message: format!("{method}: no place at {path}"),
            })
        };
        let at = || place("/position");
        let or_nothing = |found: Option<Value>| Ok(found.unwrap_or(Value::Null));
        match method {
            "textDocument/completion" => Ok(complete::complete(document, &self.classes, at()?)),
            "textDocument/hover" => or_nothing(hover::hover(document, &self.classes, at()?)),
            "textDocument/definition" => or_nothing(names::definition(document, at()?)),
            "textDocument/references" => {
                let with = parameters.pointer("/context/includeDeclaration").and_then(Value::as_bool);
                or_nothing(names::references(document, at()?, with.unwrap_or(true)))
            }
            "textDocument/documentHighlight" => or_nothing(names::highlights(document, at()?)),
            "textDocument/prepareRename" => Ok(names::prepare_rename(document, at()?)?),
            "textDocument/rename" => {
                let new = text_of(parameters, "/newName").unwrap_or_default();
                Ok(names::rename(document, at()?, new)?)
            }
            "textDocument/documentSymbol" => Ok(symbols::outline(document)),
            "textDocument/formatting" => formatting(document),
            "textDocument/semanticTokens/full" => Ok(tokens::tokens(document)),
            "textDocument/codeAction" => {
                Ok(actions::actions(document, place("/range/start")?, place("/range/end")?))
            }
            _ => {
                let message = format!("'{method}' is not a request of this server");
                Err(Refusal { code: ErrorCode::MethodNotFound, message })
            }
        }
    }
}

fn refused(id: RequestId, refusal: Refusal) -> Response {
    Response::new_err(id, refusal.code as i32, refusal.message)
}

/// The edits that format a text: none where it cannot be read, for its errors are shown anyway.
fn formatting(document: &Document) -> Result<Value, Refusal> {
    match fmt::format(document.text()) {
        Ok(formatted) if formatted == document.text() => Ok(json!([])),
        Ok(formatted) => Ok(json!([{ "range": document.whole(), "newText": formatted }])),
        Err(fmt::Error::Syntax(_)) => Ok(Value::Null),
        Err(why @ fmt::Error::Changed { .. }) => Err(why.to_string().into()),
    }
}
