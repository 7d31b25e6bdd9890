// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of devices as text, and the permission that devices need.

use std::str::FromStr;

use packet::port::{Error, Spec};

/// The last value given for `key`.
pub(crate) fn setting<'a>(spec: &'a Spec, key: &str) -> Option<&'a str> {
    spec.settings.iter().rev().find(|(k, _)| k.eq_ignore_ascii_case(key)).map(|(_, value)| value.as_str())
}

/// A setting that is true or false.
pub(crate) fn flag(spec: &Spec, key: &str) -> Result<Option<bool>, Error> {
    let Some(value) = setting(spec, key) else { return Ok(None) };
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(Some(true)),
        "false" | "0" | "no" | "off" => Ok(Some(false)),
        _ => Err(Error::new(&spec.device, format!("{key} {value} is neither true nor false"), "")),
    }
}

/// A setting that is a number of this type.
pub(crate) fn number<T: FromStr>(spec: &Spec, key: &str) -> Result<Option<T>, Error> {
    let Some(value) = setting(spec, key) else { return Ok(None) };
    let wrong = |_| Error::new(&spec.device, format!("{key} {value} is not a number that fits"), "");
    value.parse().map(Some).map_err(wrong)
}

/// What lets this program use devices: a command, or for a confined router what it was to be started with.
pub(crate) fn grant() -> String {
    if crate::opener::is_asked() {
        return "start the router with --interfaces for what it may open later".to_owned();
    }
    let program = std::env::current_exe().map_or_else(|_| "junctor".to_owned(), |p| p.display().to_string());
    format!("sudo setcap cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock+ep {program}, or run it as root")
}
