// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fed routes by hand: lines of text as a replay of a control plane.

use feed::{Destination, Header, Hop, Labels, Object, Reply, Update};

use super::FeedSink;

/// The number of this feed, which no control plane has.
const FEED: u64 = u64::MAX;

/// Makes the routes of a text those of the feed, one a line: `PREFIX [GATEWAY] LINK`, or `PREFIX` and `local`, `blackhole`, `unreachable` or
/// `prohibit`. A VRF may stand behind the prefix, as `10.0.0.0/8@red`.
///
/// # Errors
/// A line that means nothing, or what the tables refuse.
pub(crate) fn set(sink: &FeedSink, text: &str) -> Result<(), String> {
    let (mut links, mut vrfs): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut updates = Vec::new();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    for (id, line) in (1..).zip(lines) {
        let wrong = || format!("expected PREFIX [GATEWAY] LINK, or PREFIX and a verdict, not '{line}'");
        let words: Vec<&str> = line.split_whitespace().collect();
        let (prefix, gateway, way) = match words[..] {
            [prefix, way] => (prefix, None, way),
            [prefix, gateway, link] => (prefix, Some(gateway.parse().map_err(|_| wrong())?), link),
            _ => return Err(wrong()),
        };
        let (prefix, table) = match prefix.split_once('@') {
            None => (prefix, 0),
            Some((prefix, vrf)) => (prefix, number_of(&mut vrfs, vrf).map_err(|()| wrong())?),
        };
        let prefix = prefix.parse().map(Destination::V4).or_else(|_| prefix.parse().map(Destination::V6));
        let object = match way {
            "local" => Object::Local,
            "blackhole" => Object::Blackhole,
            "unreachable" => Object::Unreachable,
            "prohibit" => Object::Prohibit,
            name => {
                let known = links.iter().position(|link| *link == name);
                let link = known.unwrap_or_else(|| {
                    links.push(name);
                    links.len() - 1
                });
                let labels = Labels::default();
                Object::Forward(vec![Hop {
                    gateway,
                    link: link as u16,
                    weight: 1,
                    backup: false,
                    labels,
                    propagates_ttl: None,
                }])
            }
        };
        updates.push(Update::Object { id, object });
        updates.push(Update::Route { table, prefix: prefix.map_err(|_| wrong())?, id });
    }
    let links = (0..).zip(&links).map(|(link, name)| Update::Link { link, up: true, name });
    let tables = (1..).zip(&vrfs).map(|(number, name)| Update::Table { number, name });
    let all = [Update::Begin].into_iter().chain(tables).chain(links).chain(updates).chain([Update::End]);
    send(sink, 0, [Update::Hello { feed: FEED }])?;
    send(sink, 1, all)
}

/// The number of a VRF among those named.
fn number_of<'a>(vrfs: &mut Vec<&'a str>, name: &'a str) -> Result<u8, ()> {
    let known = vrfs.iter().position(|vrf| *vrf == name);
    let at = known.unwrap_or_else(|| {
        vrfs.push(name);
        vrfs.len() - 1
    });
    u8::try_from(at + 1).map_err(|_| ())
}

fn send<'a>(
    sink: &FeedSink,
    sequence: u64,
    updates: impl IntoIterator<Item = Update<'a>>,
) -> Result<(), String> {
    let mut batch = Vec::new();
    Header { sequence }.encode(&mut batch);
    updates.into_iter().for_each(|update| update.encode(&mut batch));
    match sink.apply(&batch) {
        Some(Reply::Replay { why }) => Err(why),
        Some(Reply::Applied { refused: 1.., why, .. }) => Err(why),
        Some(_) => Ok(()),
        None => Err("another configuration takes over".into()),
    }
}
