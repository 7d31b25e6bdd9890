// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks the kernel which route decides about addresses, by `ip route get fibmatch`.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::IpAddr;
use std::process::{Command, Stdio};

use serde_json::Value;
use tables::fib4::NextHopId;
use tables::routes::{Hop, Leg, Special};
use wire::Prefix;

use crate::Error;

/// What the kernel does with packets to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// They go on by these legs, sorted, by decision of this route.
    Route(Prefix, Vec<Leg>),
    /// A route without a next hop decides. The kernel names its type, but not its prefix.
    Special(Special),
    /// The address is the kernel's own, or one of its broadcast and multicast addresses.
    Local,
    /// There is no route.
    None,
}

impl Answer {
    /// Whether a table's answer is the same.
    pub(crate) fn agrees(&self, ours: Option<(Prefix, &Hop)>) -> bool {
        match (self, ours) {
            // A bare number as next hop: only the prefix compares.
            (Answer::Route(prefix, _), Some((our_prefix, Hop::Id(_)))) => *prefix == our_prefix,
            (Answer::Route(prefix, legs), Some((our_prefix, Hop::Legs(our_legs)))) => {
                *prefix == our_prefix && *legs == canonical(our_legs.clone())
            }
            (Answer::Special(kind), Some((_, Hop::Special(ours)))) => kind == ours,
            // `throw` sends the search on to the next table, which has nothing either.
            (Answer::None, None | Some((_, Hop::Special(Special::Throw)))) => true,
            _ => false,
        }
    }

    /// For the user.
    pub(crate) fn shown(&self) -> Option<String> {
        match self {
            Answer::Route(prefix, legs) => Some(format!("{prefix} {}", Hop::Legs(legs.clone()))),
            Answer::Special(kind) => Some(kind.name().to_owned()),
            Answer::Local => Some("local".to_owned()),
            Answer::None => None,
        }
    }
}

/// Legs in one order; the weight of a single one says nothing.
fn canonical(mut legs: Vec<Leg>) -> Vec<Leg> {
    if let [leg] = &mut legs[..] {
        leg.weight = 1;
    }
    legs.sort();
    legs
}

/// Addresses worth asking about: hosts in routes, routes' first and last addresses and those just outside, and any.
pub(crate) fn samples(routes: &[(Prefix, NextHopId)], count: usize, seed: u64) -> Vec<IpAddr> {
    let mut random = fastrand::Rng::with_seed(seed);
    let draw = |random: &mut fastrand::Rng| -> IpAddr {
        let Some((prefix, _)) = random.choice(routes) else { return random.u32(..).to_be_bytes().into() };
        let (first, host_bits) = match prefix {
            Prefix::V4(prefix) => (u128::from(prefix.bits()), 32 - u32::from(prefix.len())),
            Prefix::V6(prefix) => (prefix.bits(), 128 - u32::from(prefix.len())),
        };
        let hosts = if host_bits == 128 { u128::MAX } else { (1 << host_bits) - 1 };
        let address = match random.u8(..8) {
            0 => first,
            1 => first | hosts,
            2 => first.wrapping_sub(1),
            3 => (first | hosts).wrapping_add(1),
            4 => random.u128(..),
            _ => first | random.u128(..) & hosts,
        };
        // The kernel takes the unspecified address for itself.
        match prefix {
            Prefix::V4(_) => (address as u32).max(1).to_be_bytes().into(),
            Prefix::V6(_) => address.max(1).to_be_bytes().into(),
        }
    };
    (0..count).map(|_| draw(&mut random)).collect()
}

/// The kernel's answers, one for each address.
pub(crate) fn ask(namespace: Option<&str>, addresses: &[IpAddr]) -> Result<Vec<Answer>, Error> {
    let mut command = Command::new("ip");
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    command.args(["-j", "-force", "-batch", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(Error::NoKernel)?;
    let lines: String = addresses.iter().map(|address| format!("route get fibmatch {address}\n")).collect();
    let mut stdin = child.stdin.take().expect("it is piped");
    // A separate thread writes the input, as answers come before `ip` has read all of it.
    let feeder = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().map_err(Error::NoKernel)?;
    let fed = feeder.join();
    let (answers, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !matches!(fed, Ok(Ok(()))) {
        return Err(Error::Kernel(format!("`ip` of iproute2 ended early: {}", errors.trim())));
    }
    parse(&answers, &errors, addresses.len())
}

/// Puts the answers, one a line, and the refusals, which name the line of their question, in the order of the questions.
fn parse(answers: &str, errors: &str, count: usize) -> Result<Vec<Answer>, Error> {
    let (mut refused, mut why) = (HashMap::new(), "");
    for line in errors.lines() {
        match line.strip_prefix("Command failed -:").map(str::parse::<usize>) {
            Some(Ok(number)) => {
                let said = || Error::Kernel(format!("`ip` of iproute2 says: {why}"));
                refused.insert(number, refusal(why).ok_or_else(said)?);
            }
            _ => why = line,
        }
    }
    let mut answers = answers.lines().filter(|line| !line.trim().is_empty());
    let mut all = Vec::with_capacity(count);
    for number in 1..=count {
        all.push(match refused.remove(&number) {
            Some(answer) => answer,
            None => {
                let too_few = || Error::Kernel(format!("`ip` of iproute2 gave too few answers: {why}"));
                let line = answers.next().ok_or_else(too_few)?;
                let strange =
                    || Error::Kernel(format!("an answer of `ip` of iproute2 is not understood: {line}"));
                route(line).ok_or_else(strange)?
            }
        });
    }
    Ok(all)
}

/// What the kernel's error means as a decision about a packet.
fn refusal(why: &str) -> Option<Answer> {
    Some(match why.strip_prefix("RTNETLINK answers: ")? {
        "Network is unreachable" => Answer::None,
        "No route to host" => Answer::Special(Special::Unreachable),
        "Permission denied" => Answer::Special(Special::Prohibit),
        "Invalid argument" => Answer::Special(Special::Blackhole),
        _ => return None,
    })
}

fn route(line: &str) -> Option<Answer> {
    let all: Value = serde_json::from_str(line).ok()?;
    let route = all.get(0)?;
    let kind = route.get("type").and_then(Value::as_str).unwrap_or("unicast");
    match kind {
        "local" | "broadcast" | "multicast" | "anycast" => return Some(Answer::Local),
        "unicast" => {}
        kind => return Special::named(kind).map(Answer::Special),
    }
    let legs = match route.get("nexthops").and_then(Value::as_array) {
        Some(legs) => legs.iter().map(leg).collect::<Option<Vec<Leg>>>()?,
        None => vec![leg(route)?],
    };
    let prefix = match route.get("dst")?.as_str()? {
        "default" => {
            let is_six = route.get("pref").is_some();
            Prefix::all(is_six)
        }
        text => Prefix::parse_exact(text).ok()?,
    };
    Some(Answer::Route(prefix, canonical(legs)))
}

fn leg(from: &Value) -> Option<Leg> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let gateway = text(from.get("gateway")).or_else(|| text(from.get("via").and_then(|via| via.get("host"))));
    Some(Leg {
        gateway: gateway.map(|gateway| gateway.parse()).transpose().ok()?,
        device: text(from.get("dev")),
        weight: from
            .get("weight")
            .and_then(Value::as_u64)
            .map_or(Some(1), |weight| weight.try_into().ok())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_refusals_in_order() {
        let answers = r#"[{"dst":"10.0.0.0/8","gateway":"192.0.2.2","dev":"d0","flags":[]}]
[{"type":"local","dst":"127.0.0.1","dev":"lo"}]
[{"dst":"10.8.0.0/16","nexthops":[{"gateway":"192.0.2.6","dev":"d0","weight":1},{"gateway":"192.0.2.5","dev":"d0","weight":2}]}]
[{"dst":"10.9.0.1","via":{"family":"inet6","host":"2001:db8::7"},"dev":"d0"}]
[{"dst":"default","dev":"d0","metric":1024,"flags":[],"pref":"medium"}]
"#;
        let errors = "RTNETLINK answers: Invalid argument\nCommand failed -:2\n\
                      RTNETLINK answers: Network is unreachable\nCommand failed -:5\n";
        let shown: Vec<String> = parse(answers, errors, 7)
            .expect("all understood")
            .iter()
            .map(|answer| answer.shown().unwrap_or_else(|| "none".to_owned()))
            .collect();
        assert_eq!(
            shown,
            [
                "10.0.0.0/8 via 192.0.2.2 dev d0",
                "blackhole",
                "local",
                "10.8.0.0/16 nexthop via 192.0.2.5 dev d0 weight 2 nexthop via 192.0.2.6 dev d0 weight 1",
                "none",
                "10.9.0.1/32 via 2001:db8::7 dev d0",
                "::/0 dev d0",
            ]
        );
        let too_few = parse("", "Cannot open network namespace \"x\": No such file or directory", 1);
        assert!(too_few.is_err_and(|why| why.to_string().contains("Cannot open network namespace")));
        let strange = parse("", "RTNETLINK answers: Operation not permitted\nCommand failed -:1\n", 1);
        assert!(strange.is_err_and(|why| why.to_string().contains("Operation not permitted")));
    }
}
