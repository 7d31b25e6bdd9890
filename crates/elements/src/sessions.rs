// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which sessions a handler is to end, of elements that have some.

use std::net::IpAddr;

use element::HandlerError;

/// An address and a port.
type End = (IpAddr, u16);

/// Sessions that a value names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// All.
    All,
    /// Those with this address at one end.
    Address(IpAddr),
    /// Those with this end.
    End(End),
    /// The one of this protocol with these ends.
    One {
        /// The protocol's number.
        protocol: u8,
        /// Where its first packet came from.
        source: End,
        /// Where that went.
        destination: End,
    },
}

impl Which {
    /// Reads a value of the handler `end`. `one` says how a single session is named.
    ///
    /// # Errors
    /// It names none.
    pub(crate) fn read(value: &str, one: &str) -> Result<Which, HandlerError> {
        let bad = || HandlerError::bad_value("end", value, &format!("'all', ADDRESS [PORT], or {one}"));
        let words: Vec<&str> = value.split_ascii_whitespace().collect();
        let address = |text: &str| text.parse::<IpAddr>().map_err(|_| bad());
        let port = |text: &str| text.parse::<u16>().map_err(|_| bad());
        Ok(match words[..] {
            ["all"] => Which::All,
            [one] => Which::Address(address(one)?),
            [one, number] => Which::End((address(one)?, port(number)?)),
            [protocol, from, at, to, number] => Which::One {
                protocol: rulefile::names::protocol(protocol).ok_or_else(bad)?,
                source: (address(from)?, port(at)?),
                destination: (address(to)?, port(number)?),
            },
            _ => return Err(bad()),
        })
    }

    /// Whether it names a session with these ends, of several.
    pub(crate) fn is_with(&self, ends: &[End]) -> bool {
        match self {
            Which::All => true,
            Which::Address(address) => ends.iter().any(|(end, _)| end == address),
            Which::End(end) => ends.contains(end),
            Which::One { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_name_sessions() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let (client, service) = ((ip("10.0.0.1"), 9), (ip("2001:db8::1"), 80));
        for (value, is_with) in [
            ("all", true),
            ("10.0.0.1", true),
            ("2001:db8::1 80", true),
            ("2001:db8::1 81", false),
            ("10.0.0.2", false),
            ("tcp 10.0.0.1 9 2001:db8::1 80", false),
        ] {
            assert_eq!(Which::read(value, "ONE").unwrap().is_with(&[client, service]), is_with, "{value}");
        }
        let one = Which::One { protocol: 6, source: client, destination: service };
        assert_eq!(Which::read("tcp 10.0.0.1 9 2001:db8::1 80", "ONE").unwrap(), one);
        for value in ["", "none", "10.0.0.1 x", "xyz 10.0.0.1 9 10.0.0.2 80", "tcp 10.0.0.1 9 10.0.0.2"] {
            let why = Which::read(value, "ONE").unwrap_err().to_string();
            assert!(why.contains("'all', ADDRESS [PORT], or ONE"), "{value}: {why}");
        }
    }
}
