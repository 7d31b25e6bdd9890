// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handlers: what elements let one read and write. Those of the router itself, such as `stop`, have a resource of their own, for
//! administrators. Only these write what reaches beyond an element, too: a router opens files and calls handlers with its own
//! rights.

use client::{Done, Want};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::{Kind, Problem};
use crate::route::{Method, Role, Route};
use crate::schema::{list, object, with};
use crate::words::word;

/// Handlers of elements whose value reaches further than their element: it names a file of the router's machine, or another handler
/// to be called, or it is sessions that no rule has seen. Without a value they do none of that.
pub const FAR_REACHING: &[&str] =
    &["load", "load_keeping_sets", "set_load", "count_call", "byte_count_call", "aggregate_call", "handover"];

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/api/v1/routers/{router}/elements/{element}/handlers",
        "The handlers of an element.",
        all_schema,
        all,
    ),
    Route::get(
        "/api/v1/routers/{router}/handlers/{handler}",
        "Reads a handler: ELEMENT.NAME, or NAME for one of the router.",
        read_schema,
        read,
    )
    .with_query(&[("parameter", "string", "What the handler is asked about.")]),
    Route::get(
        "/api/v1/routers/{router}/handlers/{handler}",
        "Writes a handler of an element. A value that names a file or another handler needs the role admin.",
        written_schema,
        write,
    )
    .by(Method::Put, Role::Operator)
    .with_body(body),
    Route::get(
        "/api/v1/routers/{router}/control/{handler}",
        "Writes a handler of the router itself, such as stop.",
        written_schema,
        control,
    )
    .by(Method::Put, Role::Admin)
    .with_body(body),
];

fn all_schema() -> Value {
    let handler = object(&[
        "name:string Its name.",
        "read:boolean Whether it can be read.",
        "write:boolean Whether it can be written.",
    ]);
    with(object(&["element:string The element."]), "handlers", list(handler))
}

fn read_schema() -> Value {
    object(&["handler:string Its name.", "value:string What it says."])
}

fn written_schema() -> Value {
    object(&["handler:string Its name.", "written:boolean True.", "message:string What the router said."])
}

fn body() -> Value {
    object(&["value:string What is written."])
}

fn all(call: &Call) -> Result<Answer, Problem> {
    let element = word(call.part("element"), "path: element")?;
    let text = call.client()?.read(&format!("{element}.handlers"))?;
    let handler = |line: &str| {
        let (name, access) = line.split_once(['\t', ' '])?;
        Some(json!({ "name": name, "read": access.contains('r'), "write": access.contains('w') }))
    };
    let handlers: Vec<Value> = text.lines().filter_map(handler).collect();
    Ok(json!({ "element": element, "handlers": handlers }).into())
}

fn read(call: &Call) -> Result<Answer, Problem> {
    let handler = word(call.part("handler"), "path: handler")?;
    if handler.ends_with(".handover") && call.who.role < Role::Admin {
        let detail = format!("'{handler}' is how a router leaves its sessions to the next process");
        return Err(Problem::new(Kind::Forbidden, detail)
            .at("path: handler")
            .fix("GET .../sessions lists them"));
    }
    let done = call.client()?.call(handler, call.asked("parameter").unwrap_or_default(), Want::Read)?;
    let (Done::Read(value) | Done::Written(value)) = done;
    Ok(json!({ "handler": handler, "value": value }).into())
}

fn put(call: &Call, handler: &str) -> Result<Answer, Problem> {
    call.only(&body())?;
    let value = call.text("value")?.unwrap_or_default();
    let message = call.client()?.write(handler, value)?;
    Ok(json!({ "handler": handler, "written": true, "message": message }).into())
}

fn write(call: &Call) -> Result<Answer, Problem> {
    let handler = word(call.part("handler"), "path: handler")?;
    // The control protocol knows handlers of the router itself as `.NAME` and `0.NAME`, too.
    let is_of_element =
        handler.split_once('.').is_some_and(|(element, _)| !element.is_empty() && element != "0");
    if !is_of_element {
        let fix = "as an administrator, PUT /api/v1/routers/{router}/control/{handler}";
        return Err(Problem::invalid(
            "path: handler",
            format!("'{handler}' is a handler of the router itself"),
            fix,
        ));
    }
    let name = handler.rsplit_once('.').map_or(handler, |(_, name)| name);
    let has_value = !call.text("value")?.unwrap_or_default().trim().is_empty();
    if FAR_REACHING.contains(&name) && has_value && call.who.role < Role::Admin {
        let detail = format!(
            "the value of '{name}' names a file or a handler, or is sessions, which the router uses with its own rights"
        );
        let fix = "ask an administrator; without a value, 'load' takes the file that is in use";
        return Err(Problem::new(Kind::Forbidden, detail).at("body: value").fix(fix));
    }
    put(call, handler)
}

fn control(call: &Call) -> Result<Answer, Problem> {
    put(call, word(call.part("handler"), "path: handler")?)
}
