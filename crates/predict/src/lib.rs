// SPDX-License-Identifier: MIT OR Apache-2.0
//! Predictions from costs that are measured here, on one and two cores.
//!
//! [`plan`] predicts what a configuration forwards on any number of cores, what limits it, and where its tasks should run. [`rewrite`]
//! looks for a configuration that feeds more cores. Both rest on a [`Trial`], which measures a configuration's [`Costs`] in short
//! rounds, and on the [`Prediction`] that follows from these.
#![forbid(unsafe_code)]
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod costs;
mod forecast;
mod links;
mod model;
mod rewriting;
mod trial;
mod waiting;

pub use costs::{Costs, handoff, median_handoff};
pub use forecast::{Forecast, Question, plan};
pub use model::Prediction;
pub use rewriting::{Goal, Outcome, Step, rewrite};
pub use trial::{Against, Trial};
