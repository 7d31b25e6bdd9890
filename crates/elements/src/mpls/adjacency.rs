// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adjacencies: how packets leave, in more detail than a gateway of their own family and an output.

use std::fmt;
use std::net::IpAddr;

use element::args::Names;
use feed::Labels;
use wire::mpls::{IMPLICIT_NULL, LABELS};

/// How packets leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Adjacency {
    /// Labels to push, the outermost first. For a packet that came with a label, they take its place.
    pub labels: Labels,
    pub way: LabelTarget,
    /// Whether the TTL is carried over from and to the packet below; `None` leaves it to the element.
    pub propagates_ttl: Option<bool>,
}

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LabelTarget {
    /// By an output, to a gateway or to where the destination address says.
    Output { gateway: Option<IpAddr>, output: u32 },
    /// On by what stands below the label: the next label, or the IP header in this routing table.
    Lookup { table: u8 },
    /// Nowhere.
    Drop,
}

/// Weighted adjacencies.
pub(crate) type Members = Vec<(Adjacency, u32)>;

impl Adjacency {
    /// One that pushes nothing.
    pub(crate) const fn plain(way: LabelTarget, labels: Labels) -> Adjacency {
        Adjacency { labels, way, propagates_ttl: None }
    }
}

/// What text about labels may refer to.
pub(super) struct Scope<'a> {
    /// Outputs that there are.
    pub noutputs: usize,
    /// Whether an annotation can name the table that packets are looked up in.
    pub has_tables: bool,
    /// Names of addresses.
    pub names: &'a Names,
}

/// A label.
pub(super) fn read_label(text: &str) -> Result<u32, String> {
    let label = text.parse().ok().filter(|label| *label < LABELS);
    label.ok_or_else(|| format!("'{text}' is not a label (0 to {})", LABELS - 1))
}

/// Labels to push, separated by slashes. Of implicit null nothing is pushed.
pub(super) fn read_labels(text: &str) -> Result<Labels, String> {
    let mut labels = text.split('/').map(read_label).collect::<Result<Vec<_>, _>>()?;
    labels.retain(|label| *label != IMPLICIT_NULL);
    Labels::new(&labels).ok_or_else(|| format!("'{text}' has more than {} labels", feed::LABELS_MAX))
}

impl Scope<'_> {
    /// Reads `HOP | HOP ...`.
    pub(super) fn read_hops(&self, text: &str) -> Result<Members, String> {
        text.split('|').map(|hop| self.read_hop(hop.trim())).collect()
    }

    fn read_hop(&self, text: &str) -> Result<(Adjacency, u32), String> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let leaves = |labels: Labels, way: &[&str]| {
            let (gateway, output, weight) = match *way {
                [output] => ("-", output, "1"),
                [gateway, output] => (gateway, output, "1"),
                [gateway, output, weight] => (gateway, output, weight),
                _ => return Err(wrong(text)),
            };
            let weight = weight.parse().ok().filter(|weight| *weight > 0);
            let weight = weight.ok_or_else(|| format!("'{}' is not a weight", way[2]))?;
            Ok((Adjacency::plain(self.read_way(gateway, output)?, labels), weight))
        };
        match words[..] {
            ["swap", labels, ref way @ ..] => leaves(read_labels(labels)?, way),
            ["pop", ref way @ ..] => leaves(Labels::default(), way),
            ["lookup"] => Ok((Adjacency::plain(LabelTarget::Lookup { table: 0 }, Labels::default()), 1)),
            ["lookup", table] => {
                let number =
                    table.parse().map_err(|_| format!("'{table}' is not a table's number (0 to 255)"))?;
                if number != 0 && !self.has_tables {
                    return Err(format!(
                        "table {number} needs VRF_ANNO, by which packets are told their table"
                    ));
                }
                Ok((Adjacency::plain(LabelTarget::Lookup { table: number }, Labels::default()), 1))
            }
            ["drop"] => Ok((Adjacency::plain(LabelTarget::Drop, Labels::default()), 1)),
            _ => Err(wrong(text)),
        }
    }

    fn read_way(&self, gateway: &str, output: &str) -> Result<LabelTarget, String> {
        let address = |text: &str| {
            let known = || self.names.ip4(text).map(IpAddr::V4);
            text.parse().ok().or_else(known).ok_or_else(|| format!("'{text}' is not a gateway's address"))
        };
        let gateway = if gateway == "-" { None } else { Some(address(gateway)?) };
        let number: u32 = output.parse().map_err(|_| format!("'{output}' is not an output number"))?;
        if number as usize >= self.noutputs {
            let last = self.noutputs.saturating_sub(1);
            return Err(format!("there is no output {number} (outputs 0 to {last} are connected)"));
        }
        Ok(LabelTarget::Output { gateway, output: number })
    }
}

fn wrong(text: &str) -> String {
    format!(
        "a hop is 'swap LABELS [GATEWAY] OUTPUT', 'pop [GATEWAY] OUTPUT', 'lookup [TABLE]' or 'drop', not '{text}'"
    )
}

impl fmt::Display for Adjacency {
    /// As it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.way, self.labels.as_slice()) {
            (LabelTarget::Drop, _) => f.write_str("drop"),
            (LabelTarget::Lookup { table: 0 }, _) => f.write_str("lookup"),
            (LabelTarget::Lookup { table }, _) => write!(f, "lookup {table}"),
            (LabelTarget::Output { gateway, output }, labels) => {
                match labels {
                    [] => f.write_str("pop ")?,
                    labels => {
                        let labels: Vec<String> = labels.iter().map(u32::to_string).collect();
                        write!(f, "swap {} ", labels.join("/"))?;
                    }
                }
                match gateway {
                    Some(gateway) => write!(f, "{gateway} {output}"),
                    None => write!(f, "- {output}"),
                }
            }
        }
    }
}
