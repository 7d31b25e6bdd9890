// SPDX-License-Identifier: MIT OR Apache-2.0
//! Services and servers of a load balancer.

use serde_json::{Value, json};
use views::{answers, balance};

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::{Parameter, Route};
use crate::schema::{anything, list, object, with};

const ELEMENT: &[Parameter] = &[("element", "string", "The element, if there are several.")];

pub(super) const ROUTES: &[Route] = &[
    Route::get(
        "/api/v1/routers/{router}/balance/services",
        "Services of a load balancer.",
        services_schema,
        services,
    )
    .with_query(ELEMENT),
    Route::get(
        "/api/v1/routers/{router}/balance/servers",
        "Servers of a load balancer, with their states and checks.",
        servers_schema,
        servers,
    )
    .with_query(ELEMENT),
];

fn services_schema() -> Value {
    with(object(&["element:string The element."]), "services", list(anything()))
}

fn servers_schema() -> Value {
    with(object(&["element:string The element."]), "servers", list(anything()))
}

fn services(call: &Call) -> Result<Answer, Problem> {
    let mut client = call.client()?;
    let (element, _) = answers::find(&mut client, call.word("element")?, &["Balance"])?;
    let found = balance::services_json(&balance::services(&mut client, &element)?);
    Ok(json!({ "element": element, "services": found }).into())
}

fn servers(call: &Call) -> Result<Answer, Problem> {
    let mut client = call.client()?;
    let (element, _) = answers::find(&mut client, call.word("element")?, &["Balance"])?;
    let found = balance::servers_json(&balance::servers(&mut client, &element)?);
    Ok(json!({ "element": element, "servers": found }).into())
}
