// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics for Prometheus.

use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::route::Route;
use crate::schema::text;

pub(super) const ROUTES: &[Route] = &[Route::get(
    "/metrics",
    "What all routers publish, as Prometheus or OpenMetrics text (docs/metrics.md).",
    text,
    read,
)];

fn read(call: &Call) -> Result<Answer, Problem> {
    let is_open = call.accept.contains("application/openmetrics-text");
    let requests = call.shared.answered();
    let text = call.shared.metrics.text(&*call.shared.routers, &requests, is_open);
    let media_type = match is_open {
        true => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        false => "text/plain; version=0.0.4; charset=utf-8",
    };
    Ok(Answer::Text(media_type, text))
}
