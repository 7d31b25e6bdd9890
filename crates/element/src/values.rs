// SPDX-License-Identifier: MIT OR Apache-2.0
//! Types of arguments and how they are written.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use lang::config;
use wire::MacAddr;

use crate::error::HandlerError;
use crate::names::{Names, TCP, UDP};

/// How the error begins for a number that its type does not hold.
pub const BETWEEN: &str = "it must lie between ";

/// A type that an argument can have.
pub trait FromArg: Sized {
    /// What is expected, for messages: "a whole number".
    const EXPECTED: &'static str;

    /// What error messages show of the argument: all, unless it holds a secret.
    fn shown(text: &str) -> Cow<'_, str> {
        text.into()
    }

    /// Reads the argument. The error may be empty, when [`FromArg::EXPECTED`] says enough.
    ///
    /// # Errors
    /// What is wrong with it.
    fn from_arg(text: &str, names: &Names) -> Result<Self, String>;

    /// Reads what is written to handler `name`.
    ///
    /// # Errors
    /// What was expected.
    fn from_value(name: &str, text: &str) -> Result<Self, HandlerError> {
        let value = Self::from_arg(text.trim(), &Names::default());
        value.map_err(|_| HandlerError::bad_value(name, text, Self::EXPECTED))
    }
}

/// Reads `true`, `false` and their other spellings.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" | "t" | "y" | "on" => Some(true),
        "false" | "no" | "0" | "f" | "n" | "off" => Some(false),
        _ => None,
    }
}

impl FromArg for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_arg(text: &str, _: &Names) -> Result<bool, String> {
        parse_bool(&text_of(text)).ok_or_else(String::new)
    }

    fn from_value(name: &str, text: &str) -> Result<bool, HandlerError> {
        parse_bool(text.trim()).ok_or_else(|| HandlerError::bad_value(name, text, "true or false"))
    }
}

fn text_of(text: &str) -> String {
    String::from_utf8_lossy(&config::unquote(text)).into_owned()
}

/// Reads a whole number: decimal, `0x` hexadecimal, or octal after a leading zero.
pub fn parse_integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.starts_with(['-', '+']) {
        return None;
    }
    let value = if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        i128::from_str_radix(hex, 16).ok()?
    } else if digits.len() > 1 && digits.starts_with('0') {
        i128::from_str_radix(digits, 8).ok()?
    } else {
        digits.parse().ok()?
    };
    Some(if negative { -value } else { value })
}

macro_rules! whole {
    ($($type:ty)*) => {$(
        impl FromArg for $type {
            const EXPECTED: &'static str = "a whole number";

            fn from_arg(text: &str, names: &Names) -> Result<$type, String> {
                let text = text_of(text);
                let defined = || names.get(&text).first().and_then(|word| parse_integer(word));
                let value = parse_integer(&text).or_else(defined).ok_or_else(String::new)?;
                let (low, high) = (<$type>::MIN, <$type>::MAX);
                if value < 0 && low == 0 {
                    return Err(String::new());
                }
                <$type>::try_from(value).map_err(|_| format!("{BETWEEN}{low} and {high}"))
            }

            fn from_value(name: &str, text: &str) -> Result<$type, HandlerError> {
                let number = parse_integer(text.trim()).and_then(|n| <$type>::try_from(n).ok());
                number.ok_or_else(|| HandlerError::bad_value(name, text, "a whole number in range"))
            }
        }
    )*};
}
whole!(u8 u16 u32 u64 usize i8 i16 i32 i64);

impl FromArg for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_arg(text: &str, _: &Names) -> Result<f64, String> {
        text_of(text).parse().ok().filter(|x: &f64| x.is_finite()).ok_or_else(String::new)
    }
}

impl FromArg for String {
    const EXPECTED: &'static str = "a string";

    fn from_arg(text: &str, _: &Names) -> Result<String, String> {
        String::from_utf8(config::unquote(text)).map_err(|_| "it is not valid UTF-8".into())
    }
}

/// The bytes of a string argument, which need not be text: `\<08 00>`.
impl FromArg for Vec<u8> {
    const EXPECTED: &'static str = "a string of bytes";

    fn from_arg(text: &str, _: &Names) -> Result<Vec<u8>, String> {
        Ok(config::unquote(text))
    }
}

/// An argument as it stands, quotes included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raw(pub String);

impl FromArg for Raw {
    const EXPECTED: &'static str = "an argument";

    fn from_arg(text: &str, _: &Names) -> Result<Raw, String> {
        Ok(Raw(text.to_owned()))
    }
}

impl FromArg for Ipv4Addr {
    const EXPECTED: &'static str = "an IPv4 address";

    fn from_arg(text: &str, names: &Names) -> Result<Ipv4Addr, String> {
        names.ip4(&text_of(text)).ok_or_else(String::new)
    }
}

impl FromArg for Ipv6Addr {
    const EXPECTED: &'static str = "an IPv6 address";

    fn from_arg(text: &str, names: &Names) -> Result<Ipv6Addr, String> {
        names.ip6(&text_of(text)).ok_or_else(String::new)
    }
}

impl FromArg for MacAddr {
    const EXPECTED: &'static str = "an Ethernet address, or an interface of this machine";

    fn from_arg(text: &str, names: &Names) -> Result<MacAddr, String> {
        names.eth(&text_of(text)).ok_or_else(String::new)
    }
}

impl FromArg for wire::Prefix4 {
    const EXPECTED: &'static str = "an IPv4 prefix (ADDRESS/LENGTH or ADDRESS/MASK)";

    fn from_arg(text: &str, names: &Names) -> Result<wire::Prefix4, String> {
        let text = text_of(text);
        let named = || names.net4(&text).and_then(wire::AddrMask4::prefix);
        text.parse().ok().or_else(named).ok_or_else(String::new)
    }
}

impl FromArg for wire::Prefix6 {
    const EXPECTED: &'static str = "an IPv6 prefix (ADDRESS/LENGTH)";

    fn from_arg(text: &str, names: &Names) -> Result<wire::Prefix6, String> {
        let text = text_of(text);
        let named = || names.net6(&text).map(wire::AddrPrefix6::prefix);
        text.parse().ok().or_else(named).ok_or_else(String::new)
    }
}

/// A time: seconds, or with a unit (`10ms`, `1.5 s`, `2 min`, `1h`).
impl FromArg for Duration {
    const EXPECTED: &'static str = "a time (seconds, or with unit: 10ms, 1.5s, 2min)";

    fn from_arg(text: &str, _: &Names) -> Result<Duration, String> {
        parse_duration(&text_of(text)).ok_or_else(String::new)
    }
}

/// Reads a time, see [`Duration`]'s `FromArg`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor_ns: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1e9,
        "ms" | "msec" | "milliseconds" => 1e6,
        "us" | "usec" | "microseconds" => 1e3,
        "ns" | "nsec" | "nanoseconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60e9,
        "h" | "hr" | "hour" | "hours" => 3600e9,
        "d" | "day" | "days" => 86400e9,
        _ => return None,
    };
    let ns = number.trim().parse::<f64>().ok()? * factor_ns;
    (0.0..=u64::MAX as f64).contains(&ns).then(|| Duration::from_nanos(ns.round() as u64))
}

/// A rate in bytes per second, written as bytes per second or in bits with a unit: `1000`, `10Mbps`, `2MBps`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bandwidth {
    /// Bytes per second.
    pub bytes_per_second: u64,
}

impl FromArg for Bandwidth {
    const EXPECTED: &'static str = "a rate (bytes per second, or with unit: 10Mbps, 2MBps)";

    fn from_arg(text: &str, _: &Names) -> Result<Bandwidth, String> {
        let text = text_of(text);
        let text = text.trim();
        let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let unit = unit.trim();
        let scale = |prefix: &str| match prefix {
            "" => Some(1.0),
            "k" | "K" => Some(1e3),
            "M" => Some(1e6),
            "G" => Some(1e9),
            _ => None,
        };
        let factor = if unit.is_empty() {
            Some(1.0)
        } else if let Some(prefix) = unit.strip_suffix("Bps").or(unit.strip_suffix("B/s")) {
            scale(prefix)
        } else if let Some(prefix) =
            unit.strip_suffix("bps").or(unit.strip_suffix("b/s")).or(unit.strip_suffix("baud"))
        {
            scale(prefix).map(|f| f / 8.0)
        } else {
            scale(unit)
        };
        let rate = factor.zip(number.trim().parse::<f64>().ok()).map(|(f, n)| f * n);
        let rate = rate.filter(|r| (0.0..1e18).contains(r)).ok_or_else(String::new)?;
        Ok(Bandwidth { bytes_per_second: rate.round() as u64 })
    }
}

/// A port of UDP or TCP, by number or well-known name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port(pub u16);

impl FromArg for Port {
    const EXPECTED: &'static str = "a port number or name";

    fn from_arg(text: &str, names: &Names) -> Result<Port, String> {
        let text = text_of(text);
        // A number that has a name of another kind will do, too.
        let number = || names.get(&text).first().and_then(|word| u16::try_from(parse_integer(word)?).ok());
        let port = names.port(&text, UDP).or_else(|| names.port(&text, TCP)).or_else(number);
        port.map(Port).ok_or_else(String::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: FromArg + PartialEq + std::fmt::Debug>(cases: &[(&str, Option<T>)]) {
        for (text, want) in cases {
            assert_eq!(T::from_arg(text, &Names::default()).ok().as_ref(), want.as_ref(), "{text}");
        }
    }

    #[test]
    fn numbers() {
        check::<u32>(&[
            ("5", Some(5)),
            ("0x1F", Some(31)),
            ("010", Some(8)),
            ("-1", None),
            ("4294967296", None),
            ("", None),
        ]);
        check::<i8>(&[("-128", Some(-128)), ("128", None), ("--1", None)]);
        check::<f64>(&[("1.5", Some(1.5)), ("nan", None), ("x", None)]);
        check::<bool>(&[("TRUE", Some(true)), ("no", Some(false)), ("2", None)]);
    }

    #[test]
    fn times_and_rates() {
        let ms = Duration::from_millis;
        check::<Duration>(&[
            ("1.5", Some(ms(1500))),
            ("10ms", Some(ms(10))),
            ("2 min", Some(ms(120_000))),
            ("-1", None),
            ("3 parsecs", None),
        ]);
        let rate = |bytes_per_second| Some(Bandwidth { bytes_per_second });
        check::<Bandwidth>(&[
            ("1000", rate(1000)),
            ("8Mbps", rate(1_000_000)),
            ("2 kBps", rate(2000)),
            ("x", None),
        ]);
    }

    #[test]
    fn addresses() {
        check::<Ipv4Addr>(&[
            ("1.2.3.4", Some(Ipv4Addr::new(1, 2, 3, 4))),
            ("1.2.3", None),
            ("no-such-if", None),
        ]);
        check::<Port>(&[("80", Some(Port(80))), ("ssh", Some(Port(22))), ("65536", None)]);
    }
}
