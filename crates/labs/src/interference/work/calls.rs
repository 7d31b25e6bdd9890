// SPDX-License-Identifier: MIT OR Apache-2.0
//! SIP calls over loopback in a network namespace, by PJSIP (the study's stack) or by sipp.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use testbed::process::Process;
use testbed::rig::Namespace;

use super::tools::{self, Time, thread_ns};
use crate::Error;

const SCRIPT: &str = include_str!("../calls.py");
/// How long calls may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// What makes calls.
pub(super) struct Calls {
    with: With,
    namespace: Namespace,
}

enum With {
    /// Its Python.
    Pjsip(PathBuf),
    /// Its callee.
    Sipp(Process),
}

impl Calls {
    /// By PJSIP, if there is a Python for it.
    pub(super) fn prepare(python: Option<PathBuf>) -> Result<Calls, Error> {
        let namespace = Namespace::unnamed()?;
        let with = match python {
            Some(python) => With::Pjsip(python),
            None => With::Sipp(callee(&namespace)?),
        };
        Ok(Calls { with, namespace })
    }

    /// Makes so many, and waits until all have ended.
    pub(super) fn make(&self, calls: u32) -> Result<Time, Error> {
        match &self.with {
            With::Pjsip(python) => pjsip(&self.namespace, &python.display().to_string(), calls),
            With::Sipp(callee) => sipp(&self.namespace, callee, calls),
        }
    }
}

/// Starts sipp's callee.
fn callee(namespace: &Namespace) -> Result<Process, Error> {
    let words = ["sipp", "-sn", "uas", "-i", "127.0.0.1", "-p", "5060", "-nostdin"];
    let mut callee = namespace.spawn(&words)?;
    let started = Instant::now();
    let bound = || {
        let sockets = namespace.enter(|| std::fs::read_to_string("/proc/thread-self/net/udp"));
        // 5060, as the kernel writes it.
        sockets.is_ok_and(|text| text.is_ok_and(|text| text.contains(":13C4 ")))
    };
    while !bound() {
        if let Some(status) = callee.ended() {
            return Err(Error::nothing(format!("sipp ended with {status}: {}", callee.stderr().trim())));
        }
        if started.elapsed() > Duration::from_secs(30) {
            return Err(Error::nothing("sipp does not listen after 30 s"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(callee)
}

/// Makes calls by sipp; the time of both ends.
fn sipp(namespace: &Namespace, callee: &Process, calls: u32) -> Result<Time, Error> {
    let calls = calls.to_string();
    let mut words = vec!["sipp", "-sn", "uac", "127.0.0.1:5060", "-i", "127.0.0.1", "-p", "5061", "-nostdin"];
    words.extend(["-m", &calls, "-r", "100000", "-l", "50", "-d", "0", "-timeout", "600s"]);
    let (started, before) = (Instant::now(), thread_ns(callee.id()));
    let caller = namespace.spawn(&words)?;
    let (status, own_ns, output) = tools::finish(caller, PATIENCE)?;
    let wall_s = started.elapsed().as_secs_f64();
    // 0: all calls succeeded.
    if !status.success() {
        return Err(Error::nothing(format!("sipp ended with {status}: {}", output.trim())));
    }
    Ok(Time { wall_s, cpu_ns: own_ns + thread_ns(callee.id()) - before })
}

/// Makes calls by PJSIP.
fn pjsip(namespace: &Namespace, python: &str, calls: u32) -> Result<Time, Error> {
    let count = calls.to_string();
    let caller = namespace.spawn(&[python, "-c", SCRIPT, &count])?;
    let (status, _, output) = tools::finish(caller, PATIENCE)?;
    let line = output.lines().find_map(|line| line.strip_prefix("calls "));
    let words: Vec<f64> = line.unwrap_or_default().split(' ').filter_map(|word| word.parse().ok()).collect();
    match words[..] {
        [confirmed, wall_s, cpu_s] if confirmed == f64::from(calls) => {
            Ok(Time { wall_s, cpu_ns: cpu_s * 1e9 })
        }
        [confirmed, ..] => {
            Err(Error::nothing(format!("PJSIP: only {confirmed} of {calls} calls were set up")))
        }
        [] => {
            let last = output.lines().last().unwrap_or_default();
            Err(Error::nothing(format!("PJSIP ended with {status}: {last}")))
        }
    }
}
