// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `junctor run` prints after the run, and its exit status.

use std::time::Duration;

use conf::Form;
use engine::{HandlerError, Router};
use services::answers::{exit_status, expand, report};

use super::Args;
use crate::exit;

pub(super) fn write_flat(file: &str, text: &str) -> std::io::Result<()> {
    if file == "-" {
        out!("{text}");
        return Ok(());
    }
    std::fs::write(file, text)
}

/// Prints how long the run took: as Click does, the processor's time in the program and in the kernel, and the time that passed.
pub(super) fn print_time(form: Form, passed: Duration) {
    if form != Form::Click {
        return outln!("{:.3}", passed.as_secs_f64());
    }
    let stat = procfs::process::Process::myself().and_then(|process| process.stat());
    let ticks = procfs::ticks_per_second().max(1) as f64;
    let (user, system) = stat.map_or((0, 0), |stat| (stat.utime, stat.stime));
    let (minutes, seconds) = (passed.as_secs() / 60, passed.as_secs_f64() % 60.0);
    outln!("{:.3}u {:.3}s {minutes}:{seconds:05.2}", user as f64 / ticks, system as f64 / ticks);
}

/// Answers what was asked for after the run.
pub(super) fn finish(args: &Args, form: Form, router: &mut Router) -> u8 {
    let left = !router.left_behind().is_empty();
    let mut status = if left { exit::FAILURE } else { exit::SUCCESS };
    if args.answers.report {
        out!("{}", report(router));
    }
    for why in print_handlers(&args.answers.handlers, form, router) {
        complain(form, &why);
        status = exit::FAILURE;
    }
    if let Some(handler) = &args.answers.exit_handler {
        status = exit_status_of(handler, form, router);
    }
    // A run that left something behind is no success, even if the rest is.
    if left && status == exit::SUCCESS { exit::FAILURE } else { status }
}

fn complain(form: Form, why: &str) {
    match form {
        Form::Click => errln!("{why}"),
        _ => errln!("junctor: {why}"),
    }
}

/// The status that a handler's value asks for; where it cannot be had, -1 as Click has it, or failure.
fn exit_status_of(handler: &str, form: Form, router: &mut Router) -> u8 {
    let why = match (router.read(handler, ""), form) {
        (Ok(value), form) => match (exit_status(value.trim()), form) {
            (Some(status), _) => return status,
            (None, Form::Click) => "exit handler value should be integer".to_owned(),
            (None, _) => {
                format!("the exit handler's value should be an integer or a boolean, not '{}'", value.trim())
            }
        },
        (Err(HandlerError::NoHandler(_) | HandlerError::Denied(_)), Form::Click) => {
            format!("no '{handler}' read handler")
        }
        (Err(why), Form::Click) => why.to_string(),
        (Err(why), _) => format!("{handler}: {why}"),
    };
    complain(form, &why);
    if form == Form::Click { u8::MAX } else { exit::FAILURE }
}

/// Prints handlers as Click does: a single one's value alone, several, and those that a pattern or class finds, with their names. What could not be
/// read, and why.
fn print_handlers(wanted: &[String], form: Form, router: &mut Router) -> Vec<String> {
    let mut failed = Vec::new();
    for name in wanted {
        let found = match expand(name, router) {
            Ok(found) => found,
            Err(why) if form == Form::Click => {
                failed.push(why.to_string());
                continue;
            }
            Err(_) => None,
        };
        let named = wanted.len() > 1 || found.is_some();
        for full in found.unwrap_or_else(|| vec![name.clone()]) {
            match router.read(&full, "") {
                Ok(value) => {
                    let end = if value.is_empty() || value.ends_with('\n') { "" } else { "\n" };
                    if named {
                        outln!("{full}:\n{value}{end}");
                    } else {
                        out!("{value}{end}");
                    }
                }
                Err(why) => failed.push(unread(&full, &why, form)),
            }
        }
    }
    failed
}

/// Why a handler could not be read, in Click's words where it is called so.
fn unread(full: &str, why: &HandlerError, form: Form) -> String {
    match (form, why) {
        (Form::Click, HandlerError::NoHandler(_)) => format!("no '{full}' handler"),
        (Form::Click, HandlerError::Denied(_)) => format!("'{full}' is a write handler"),
        (Form::Click, _) => why.to_string(),
        _ => format!("{full}: {why}"),
    }
}
