// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fed routes by hand: lines of text as a replay of a control plane.

use feed::{Header, Hop, Labels, Object, Prefix, Reply, Update};

use super::FeedSink;

/// The number of this feed, which no control plane has.
const FEED: u64 = u64::MAX;

/// Makes the routes of a text those of the feed, one a line: `PREFIX [GATEWAY] LINK`, or `PREFIX` and `local`, `blackhole`, `unreachable` or
/// `prohibit`.
///
/// # Errors
/// A line that means nothing, or what the tables refuse.
pub(crate) fn set(sink: &FeedSink, text: &str) -> Result<(), String> {
    let mut links: Vec<&str> = Vec::new();
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
        let prefix = prefix.parse().map(Prefix::V4).or_else(|_| prefix.parse().map(Prefix::V6));
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
        updates.push(Update::Route { table: 0, prefix: prefix.map_err(|_| wrong())?, id });
    }
    let links = (0..).zip(&links).map(|(link, name)| Update::Link { link, up: true, name });
    let all = [Update::Begin].into_iter().chain(links).chain(updates).chain([Update::End]);
    send(sink, 0, [Update::Hello { feed: FEED }])?;
    send(sink, 1, all)
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
