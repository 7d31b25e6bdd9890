// SPDX-License-Identifier: MIT OR Apache-2.0
//! Modifiers as a campaign's file names them: each run has none or one, so that its cost is seen (RFC 2544 11).

use super::super::modifiers::Beside;

/// Networks whose addresses destinations have at random, if the file does not say (RFC 2544 12).
const NETWORKS: &str = "256";

/// Those that take no value, apart from the kinds of [`Beside`], those that may, and those that must.
const NAMES: [&str; 3] =
    ["filters, mesh, random-ports, random-macs", "networks, bursts", "burst, flows-per-port"];

/// What follows the other options of a run: nothing for `none`.
pub(super) fn options(name: &str) -> Result<Vec<String>, String> {
    if Beside::ALL.iter().any(|what| what.name() == name) {
        return Ok(vec!["--beside".to_owned(), name.to_owned()]);
    }
    let (option, value) = name.split_once('=').map_or((name, None), |(option, value)| (option, Some(value)));
    let is = |names: &str| names.split(", ").any(|known| known == option);
    let [bare, may, must] = NAMES;
    Ok(match value {
        None if name == "none" => Vec::new(),
        None if name == "networks" => vec![format!("--networks={NETWORKS}")],
        None if is(bare) || is(may) => vec![format!("--{name}")],
        Some(_) if is(may) || is(must) => vec![format!("--{name}")],
        None if is(must) => return Err(format!("{name:?} takes a value; write \"{name}=16\", for instance")),
        Some(_) if is(bare) => return Err(format!("{option:?} takes no value; write \"{option}\"")),
        _ => {
            let beside: Vec<String> = Beside::ALL.iter().map(|what| what.name()).collect();
            return Err(format!(
                "{name:?} is no modifier; take none, {}, {bare}, {may} (or networks=64, bursts=16,64), or burst or flows-per-port with \
                 a number, such as burst=16; others are options of a procedure",
                beside.join(", ")
            ));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_options_of_a_test() {
        for (name, wanted) in [
            ("none", ""),
            ("broadcast", "--beside broadcast"),
            ("routing", "--beside routing"),
            ("filters", "--filters"),
            ("networks", "--networks=256"),
            ("networks=16", "--networks=16"),
            ("bursts", "--bursts"),
            ("bursts=16,64", "--bursts=16,64"),
            ("burst=4", "--burst=4"),
        ] {
            assert_eq!(options(name).unwrap().join(" "), wanted, "{name}");
        }
        for (name, says) in [
            ("updates", "take none, broadcast, management, routing, filters, "),
            ("burst", "write \"burst=16\""),
            ("filters=1", "takes no value"),
            ("imix=7a4d1g", "options of a procedure"),
            ("none=1", "is no modifier"),
        ] {
            assert!(options(name).is_err_and(|why| why.contains(says)), "{name}");
        }
    }
}
