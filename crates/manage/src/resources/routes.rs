// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes of the control plane. A list is passed on part by part, as text: nobody holds the table.

use std::net::IpAddr;

use ::routes::{Listed, part};
use client::{Client, Done, Want};
use serde_json::{Value, json};
use wire::Prefix;

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::{Kind, Problem};
use crate::route::Route;
use crate::rows::Rows;
use crate::schema::{anything, list, object, with};
use crate::words::{absent, shown, word};

/// Parts that are asked for in one request: a list of which little fits goes on at its cursor.
const PARTS: usize = 16;
/// What of the control plane can be read. Its `routes` and `multicast` are all of them at once.
const HANDLERS: [&str; 7] = ["status", "links", "page", "lookup", "multicast_page", "group", "diff"];

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/api/v1/routes",
        "Routes that the control plane has learnt. A page may be short or empty although more follow.",
        schema,
        read,
    )
    .with_query(&[
        ("address", "string", "The route that decides about this address."),
        ("prefix", "string", "Only routes within this prefix."),
        ("feed", "string", "Only routes of this feed: fpm or kernel."),
        ("vrf", "string", "Routes of this VRF."),
        ("all", "boolean", "Routes that do not count, too."),
        ("limit", "integer", "About so many at most (1000)."),
        ("cursor", "string", "The field 'next' of the page before."),
    ]),
    Route::get(
        "/api/v1/routes/multicast",
        "Multicast entries of the control plane. A page may be short or empty although more follow.",
        multicast_schema,
        multicast,
    )
    .with_query(&[
        ("vrf", "string", "Entries of this VRF."),
        ("limit", "integer", "About so many at most (1000)."),
        ("cursor", "string", "The field 'next' of the page before."),
    ]),
    Route::get(
        "/api/v1/routes/status",
        "Feeds, numbers of routes, and the router that gets them.",
        status_schema,
        status,
    ),
    Route::get(
        "/api/v1/control-plane/handlers/{handler}",
        "Reads a handler of the control plane: status, links, page, lookup, multicast_page, group, diff.",
        handler_schema,
        handler,
    )
    .with_query(&[("parameter", "string", "What the handler is asked about.")]),
];

fn schema() -> Value {
    let page = object(&["count:integer Routes of this page.", "next:string? The cursor of the next page."]);
    with(page, "routes", list(anything()))
}

fn multicast_schema() -> Value {
    let page = object(&["count:integer Entries of this page.", "next:string? The cursor of the next page."]);
    with(page, "entries", list(anything()))
}

fn status_schema() -> Value {
    with(object(&[]), "status", anything())
}

fn handler_schema() -> Value {
    object(&["handler:string Its name.", "value:string What it says."])
}

fn ask(client: &mut Client, handler: &str) -> Result<Value, Problem> {
    let broken = |why: serde_json::Error| {
        Problem::new(Kind::Broken, format!("the control plane's answer is not understood: {why}"))
    };
    serde_json::from_str(&client.read(handler)?).map_err(broken)
}

/// The words by which the control plane knows which routes are wanted.
fn wish(call: &Call) -> Result<String, Problem> {
    let mut words = String::new();
    if call.asked("all") == Some("true") {
        words += "all";
    }
    if let Some(text) = call.asked("prefix") {
        let wrong = |_| {
            let detail = format!("'{}' is no prefix", shown(text));
            Problem::invalid("query: prefix", detail, "give ADDRESS/LENGTH")
        };
        words += &format!(" within={}", text.parse::<Prefix>().map_err(wrong)?);
    }
    match call.asked("feed") {
        None => {}
        Some(feed @ ("fpm" | "kernel")) => words += &format!(" feed={feed}"),
        Some(feed) => {
            let detail = format!("there is no feed '{}'", shown(feed));
            return Err(Problem::invalid("query: feed", detail, "give fpm or kernel"));
        }
    }
    if let Some(vrf) = call.word("vrf")? {
        words += &format!(" {vrf}");
    }
    Ok(words.trim_start().to_owned())
}

fn read(call: &Call) -> Result<Answer, Problem> {
    if let Some(address) = call.asked("address") {
        let wrong = |_| {
            Problem::invalid(
                "query: address",
                format!("'{}' is no address", shown(address)),
                "give an IPv4 or IPv6 address",
            )
        };
        let address: IpAddr = address.parse().map_err(wrong)?;
        let vrf = call.word("vrf")?.map_or_else(String::new, |vrf| format!(" {vrf}"));
        let found = ask(&mut call.shared.routers.control_plane()?, &format!("lookup {address}{vrf}"))?;
        let routes: Vec<Value> = Some(found).filter(|route| !route.is_null()).into_iter().collect();
        return Ok(json!({ "count": routes.len(), "next": null, "routes": routes }).into());
    }
    page(call, Listed::Routes, &wish(call)?, "routes")
}

fn multicast(call: &Call) -> Result<Answer, Problem> {
    page(call, Listed::Multicast, call.word("vrf")?.unwrap_or_default(), "entries")
}

/// The page of a list that the request asks for, with its rows in this field.
fn page(call: &Call, listed: Listed, wish: &str, field: &str) -> Result<Answer, Problem> {
    let limit = call.number("limit", 1000, 10_000)?.max(1) as usize;
    let mut cursor = call.word("cursor")?.map(str::to_owned);
    let mut client = call.shared.routers.control_plane()?;
    let mut rows = Rows::default();
    for _ in 0..PARTS {
        let found = part(&mut client, listed, limit - rows.len(), cursor.as_deref(), wish)?;
        rows.extend(&found.rows);
        cursor = found.next;
        if cursor.is_none() || rows.len() >= limit {
            break;
        }
    }
    let count = rows.len();
    Ok(rows.answer(json!({ "count": count, "next": cursor }), field))
}

fn handler(call: &Call) -> Result<Answer, Problem> {
    let handler = word(call.part("handler"), "path: handler")?;
    if !HANDLERS.contains(&handler) {
        return Err(absent("handler", handler, &format!("the handlers are {}", HANDLERS.join(", "))));
    }
    let parameter = call.asked("parameter").unwrap_or_default();
    let done = call.shared.routers.control_plane()?.call(handler, parameter, Want::Read)?;
    let (Done::Read(value) | Done::Written(value)) = done;
    Ok(json!({ "handler": handler, "value": value }).into())
}

fn status(call: &Call) -> Result<Answer, Problem> {
    Ok(json!({ "status": ask(&mut call.shared.routers.control_plane()?, "status")? }).into())
}
