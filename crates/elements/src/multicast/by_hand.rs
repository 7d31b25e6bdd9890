// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multicast entries as text: `SOURCE GROUP INPUT OUTPUT[/TTL] ... [table N]`.

use std::fmt::Write as _;
use std::net::IpAddr;

use tables::multicast::MulticastKey;

use super::trees::{Branch, MulticastRoute};

/// An entry's family and the outputs that it may name.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    pub(super) is_six: bool,
    pub(super) noutputs: usize,
    pub(super) has_tables: bool,
}

/// An address as a number.
pub(crate) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The TTL that packets must exceed unless it is given: what Linux's daemons set.
const TTL: u8 = 1;

impl Scope {
    /// Reads the packets that an entry is for, and what follows them.
    pub(super) fn read_key<'a>(&self, text: &'a str) -> Result<(MulticastKey, Vec<&'a str>), String> {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let mut table = 0;
        if let [rest @ .., "table", number] = &words[..] {
            table = number.parse().map_err(|_| format!("'{number}' is not the number of a table"))?;
            words = rest.to_vec();
        }
        if table != 0 && !self.has_tables {
            return Err(format!("table {table} needs VRF_ANNO, by which packets are told their table"));
        }
        let [source, group, rest @ ..] = &words[..] else {
            return Err(format!("an entry begins with SOURCE GROUP, as '10.0.1.2 239.1.1.1', not '{text}'"));
        };
        let family = if self.is_six { "IPv6" } else { "IPv4" };
        let address = |text: &str| {
            let address: Option<IpAddr> = text.parse().ok();
            address.filter(|address| address.is_ipv6() == self.is_six)
        };
        let group = address(group).filter(IpAddr::is_multicast);
        let group = group.ok_or_else(|| format!("'{}' is no group of {family}", words[1]))?;
        let source = match *source {
            "*" => 0,
            text => match address(text).filter(|source| !source.is_multicast()) {
                Some(source) => bits(source),
                None => return Err(format!("'{text}' is no source of {family}; '*' stands for any")),
            },
        };
        Ok((MulticastKey { table, group: bits(group), source }, rest.to_vec()))
    }

    /// Reads an entry.
    pub(super) fn read(&self, text: &str) -> Result<(MulticastKey, MulticastRoute), String> {
        let (key, words) = self.read_key(text)?;
        let [input, branches @ ..] = &words[..] else {
            return Err(format!("'{text}' lacks INPUT, the paint of packets from the right interface"));
        };
        let input = input.parse().map_err(|_| format!("INPUT '{input}' is no paint, which is 0 to 255"))?;
        let branch = |text: &&str| {
            let (output, ttl) = text.split_once('/').map_or((*text, None), |(o, t)| (o, Some(t)));
            let ttl = ttl.map_or(Ok(TTL), |ttl| ttl.parse().map_err(|_| format!("'{ttl}' is no TTL")));
            match output.parse::<u32>() {
                Ok(output) if (output as usize) < self.noutputs => {
                    Ok(Branch { output, ttl: ttl?, is_kept: false })
                }
                _ => Err(format!(
                    "there is no output {output} (outputs 0 to {} are connected)",
                    self.noutputs.saturating_sub(1)
                )),
            }
        };
        let branches = branches.iter().map(branch).collect::<Result<_, _>>()?;
        Ok((key, MulticastRoute { input: Some(input), branches, needs_kernel: false }))
    }

    fn address(&self, bits: u128) -> IpAddr {
        match self.is_six {
            true => IpAddr::V6(bits.into()),
            false => IpAddr::V4((bits as u32).into()),
        }
    }

    /// An entry as it is read.
    pub(super) fn show(&self, key: &MulticastKey, way: &MulticastRoute, is_fed: bool) -> String {
        let source = match key.source {
            0 => "*".to_owned(),
            source => self.address(source).to_string(),
        };
        let input = way.input.map_or_else(|| "-".to_owned(), |input| input.to_string());
        let mut text = format!("{source} {} {input}", self.address(key.group));
        let branch = |text: &mut String, branch: &Branch| {
            let _ = write!(text, " {}", branch.output);
            let _ = if branch.ttl == TTL { Ok(()) } else { write!(text, "/{}", branch.ttl) };
        };
        way.branches.iter().filter(|one| !one.is_kept).for_each(|one| branch(&mut text, one));
        if way.needs_kernel {
            text += " kernel";
        }
        if way.has_kept() {
            text += " kept";
            way.branches.iter().filter(|one| one.is_kept).for_each(|one| branch(&mut text, one));
        }
        if key.table != 0 {
            let _ = write!(text, " table {}", key.table);
        }
        if is_fed {
            text += " fed";
        }
        text
    }
}
