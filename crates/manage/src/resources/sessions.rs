// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sessions of a firewall, an address translator or a load balancer.

use std::net::IpAddr;

use firewall::{AddressRange, Addresses};
use serde_json::{Value, json};
use views::sessions::{self as view, Holder, Session};

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Method, Role, Route};
use crate::rows::Rows;
use crate::schema::{anything, list, object, with};
use crate::words::shown;

/// Parts of the router's table that one request reads at most.
const PARTS: usize = 64;
/// Sessions that one request ends at most.
const ENDED: usize = 1000;

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/api/v1/routers/{router}/sessions",
        "Sessions. A page may be short or empty although more follow.",
        schema,
        read,
    )
    .with_query(&[
        ("element", "string", "The element, if there are several."),
        ("address", "string", "Only with this address on one side: ADDRESS, ADDRESS/LENGTH or FIRST-LAST."),
        ("port", "integer", "Only with this port on one side."),
        ("protocol", "string", "Only of this protocol, by its name."),
        ("state", "string", "Only in this state."),
        ("vrf", "string", "Only of this VRF; main is the main table."),
        ("limit", "integer", "About so many at most (100)."),
        ("cursor", "string", "The field 'next' of the page before."),
    ]),
    Route::get(
        "/api/v1/routers/{router}/sessions/end",
        "Ends sessions that have an address on one side, 1000 at most.",
        ended_schema,
        end,
    )
    .by(Method::Post, Role::Operator)
    .with_body(body),
];

fn schema() -> Value {
    let page = object(&["element:string The element.", "next:string? The cursor of the next page."]);
    with(page, "sessions", list(anything()))
}

fn ended_schema() -> Value {
    object(&[
        "element:string The element.",
        "ended:integer Sessions that were ended.",
        "more:boolean Whether more are left.",
    ])
}

fn body() -> Value {
    object(&[
        "element*:string? The element, if there are several.",
        "address:string ADDRESS, ADDRESS/LENGTH or FIRST-LAST.",
        "port*:integer? Only with this port on one side.",
        "protocol*:string? Only of this protocol.",
        "vrf*:string? Only of this VRF; main is the main table.",
    ])
}

/// Which sessions are meant.
struct Filter {
    address: Option<Addresses>,
    port: Option<u64>,
    protocol: Option<String>,
    state: Option<String>,
    vrf: Option<String>,
}

impl Filter {
    fn takes(&self, session: &Session) -> bool {
        let ends: Vec<(IpAddr, u16)> = session.ends().collect();
        self.address.as_ref().is_none_or(|all| ends.iter().any(|(address, _)| all.holds(*address)))
            && self.port.is_none_or(|wanted| ends.iter().any(|(_, port)| u64::from(*port) == wanted))
            && self.protocol.as_ref().is_none_or(|protocol| *protocol == session.protocol)
            && self.state.as_ref().is_none_or(|state| *state == session.state)
            && self.vrf.as_ref().is_none_or(|vrf| session.is_of_vrf(vrf))
    }
}

fn addresses(text: &str, place: &str) -> Result<Addresses, Problem> {
    let wrong = |why| {
        Problem::invalid(
            place,
            format!("'{}': {why}", shown(text)),
            "give ADDRESS, ADDRESS/LENGTH or FIRST-LAST",
        )
    };
    AddressRange::parse(text).map(|range| Addresses::new([range])).map_err(wrong)
}

fn read(call: &Call) -> Result<Answer, Problem> {
    let filter = Filter {
        address: call.asked("address").map(|text| addresses(text, "query: address")).transpose()?,
        port: call.asked("port").map(|_| call.number("port", 0, 65535)).transpose()?,
        protocol: call.asked("protocol").map(str::to_owned),
        state: call.asked("state").map(str::to_owned),
        vrf: call.asked("vrf").map(str::to_owned),
    };
    let limit = call.number("limit", 100, 10_000)?.max(1) as usize;
    let mut place = Some(call.word("cursor")?.unwrap_or("0").to_owned());
    let mut client = call.client()?;
    let holder = Holder::find(&mut client, call.word("element")?)?;
    let mut rows = Rows::default();
    for _ in 0..PARTS {
        let Some(at) = place.take_if(|_| rows.len() < limit) else { break };
        let (mut sessions, next) = view::page(&mut client, &holder, &at)?;
        sessions.retain(|session| filter.takes(session));
        view::sessions_json(&sessions).iter().for_each(|row| rows.push(&row.to_string()));
        place = next;
    }
    Ok(rows.answer(json!({ "element": holder.element, "next": place }), "sessions"))
}

fn end(call: &Call) -> Result<Answer, Problem> {
    call.only(&body())?;
    let address = call.text("address")?.unwrap_or_default();
    let filter = Filter {
        address: Some(addresses(address, "body: address")?),
        port: call.count("port", 65535)?,
        protocol: call.text("protocol")?.map(str::to_owned),
        state: None,
        vrf: call.text("vrf")?.map(str::to_owned),
    };
    let element = call.text("element")?.map(|text| crate::words::word(text, "body: element")).transpose()?;
    let mut client = call.client()?;
    let holder = Holder::find(&mut client, element)?;
    let (mut found, mut more) = (Vec::new(), false);
    view::sessions(&mut client, &holder, |session| {
        if filter.takes(&session) {
            more = found.len() == ENDED;
            if !more {
                found.push(session);
            }
        }
        !more
    })?;
    for session in &found {
        client.write(&format!("{}.end", holder.element), &session.end_words())?;
    }
    Ok(json!({ "element": holder.element, "ended": found.len(), "more": more }).into())
}
