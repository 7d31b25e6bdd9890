// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of devices.

use serde_json::Value;

use super::captures::words;
use crate::answer::Answer;
use crate::call::Call;
use crate::jobs::Plan;
use crate::problem::Problem;
use crate::route::{Method, Role, Route};
use crate::schema::object;

/// Procedures that may be started.
const PROCEDURES: [&str; 7] = ["rfc2544", "rfc2889", "rfc5180", "rfc8219", "rfc9004", "mlr", "trial"];
/// Devices that may be named. A shell's command is not among them.
const DEVICES: [&str; 7] =
    ["self:", "kernel-router", "kernel-bridge", "passthrough", "ports:", "cable", "veth"];
/// Options that may be given.
const OPTIONS: [&str; 14] = [
    "--size",
    "--profile",
    "--trial",
    "--settle",
    "--link",
    "--goal",
    "--loss",
    "--time",
    "--rate",
    "--one-way",
    "--ipv6",
    "--bridged",
    "--seed",
    "--threads",
];

pub(super) const ROUTES: &[Route] = &[Route::get(
    "/api/v1/tests",
    "Begins a test of a device (junctor test); the result is its report as JSON.",
    super::jobs::schema,
    begin,
)
.by(Method::Post, Role::Admin)
.with_body(body)
.answers(202)];

fn body() -> Value {
    object(&[
        "procedure:string rfc2544, rfc2889, rfc5180, rfc8219, rfc9004, mlr or trial.",
        "device:string self:CONF, kernel-router, kernel-bridge, passthrough, ports:IF1,IF2, cable or veth.",
        "options*:[]string? Options of the procedure, each as --NAME=VALUE.",
    ])
}

fn begin(call: &Call) -> Result<Answer, Problem> {
    call.only(&body())?;
    let procedure = call.text("procedure")?.unwrap_or_default();
    if !PROCEDURES.contains(&procedure) {
        let fix = format!("use one of {}", PROCEDURES.join(", "));
        return Err(Problem::invalid("body: procedure", "there is no such procedure here", fix));
    }
    let device = crate::words::word(call.text("device")?.unwrap_or_default(), "body: device")?;
    if !DEVICES.iter().any(|known| device.starts_with(known)) {
        let fix = format!("use one that begins with {}", DEVICES.join(", "));
        return Err(Problem::invalid("body: device", "there is no such device here", fix));
    }
    let mut options: Vec<String> = vec!["test".into(), procedure.to_owned(), "--json".into()];
    // Searches say what each trial found, so that clients can follow them.
    if procedure != "trial" {
        options.push("--verbose".into());
    }
    for option in words(call, "options", 32)? {
        if !OPTIONS.contains(&option.split('=').next().unwrap_or_default()) {
            let fix = format!("use some of {}", OPTIONS.join(", "));
            return Err(Problem::invalid(
                "body: options",
                format!("'{}' cannot be given here", crate::words::shown(&option)),
                fix,
            ));
        }
        options.push(option);
    }
    let plan = super::jobs::plan(call, "test", None, None, "application/json");
    let plan = Plan { router: None, role: Role::Admin, ..plan };
    super::jobs::start(call, plan, |_| options, &[device.to_owned()], "")
}
