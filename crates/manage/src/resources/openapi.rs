// SPDX-License-Identifier: MIT OR Apache-2.0
//! The description of the API.

use crate::answer::Answer;
use crate::call::Call;
use crate::openapi;
use crate::problem::Problem;
use crate::route::Route;
use crate::schema::anything;

pub(super) const ROUTES: &[Route] =
    &[Route::get("/api/v1/openapi.json", "The description of this API (OpenAPI 3.1).", anything, read)];

fn read(_: &Call) -> Result<Answer, Problem> {
    Ok(openapi::document().into())
}
