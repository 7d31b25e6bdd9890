// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes over chains without branches.

use std::marker::PhantomData;

use element::Element;
use element::clock::Nanos;
use element::fuse::{Chain, Offer, Pass};
use element::program::{ROWS, Rows};
use packet::Packet;
use wire::ethernet::HEADER_LEN;

use super::found::{Found, HeaderPlace, Ip};
use super::send::{Link, Row};
use super::shape::Shape;
use crate::routing::Family;

struct Line<K: Ip> {
    elements: usize,
    found: Found<K::Key>,
    more: K::More,
    kind: PhantomData<K>,
}

/// The pass over the first elements that have programs, if a header begins among them just as `BEGINS` says.
pub(super) fn find<K: Ip, const BEGINS: bool>(chain: &[&dyn Element]) -> Option<Offer> {
    let mut shape = Shape::default();
    let mut elements = shape.extend_while(chain);
    // What sorts packets has a pass with branches.
    elements -= usize::from(shape.sort.is_some());
    if elements < 2 || shape.version != Some(K::VERSION) || shape.header.is_some() != BEGINS {
        return None;
    }
    let line = Line::<K> { elements, found: Found::default(), more: K::More::default(), kind: PhantomData };
    Some(Offer { elements, pass: Box::new(line) })
}

impl<K: Ip> Pass for Line<K> {
    fn run(&mut self, chain: &Chain<'_>, batch: &mut [Packet], now: Nanos) -> usize {
        let Line { elements, found, more, .. } = self;
        let mut shape = Shape::default();
        if !shape.extend((0..*elements).map(|at| chain.element(at)), now) {
            return 0;
        }
        let link = K::link(&shape);
        if shape.header.is_none() && shape.checks.is_empty() && shape.counters.is_empty() {
            return one_by_one::<K>(&shape, link, batch);
        }
        let mut done = 0;
        for packets in batch.chunks_mut(ROWS) {
            let Some(place) = HeaderPlace::of(&shape, packets) else { break };
            if place.at != place.strip && !link.is_none() {
                break;
            }
            let n = found.look::<K>(&shape, place, packets, more);
            let row = Row { place, found, rows: Rows::first(n), color: shape.color };
            let sent = match shape.is_final() {
                true => K::send(&shape, link, packets, row, more),
                false => row.enter::<K>(packets),
            };
            if !shape.counters.is_empty() {
                found.count::<K>(&shape.counters, place, sent, now);
            }
            done += sent;
            if sent < packets.len() {
                break;
            }
        }
        done
    }
}

/// Changes packets with marked headers of which only they themselves say whether they are ordinary, up to the first that is not; returns how
/// many they are. Each is read and written once, which is less work than columns.
fn one_by_one<K: Ip>(shape: &Shape<'_>, link: Link<'_, K::Key>, batch: &mut [Packet]) -> usize {
    let asks = shape.asks_annotations();
    let change = |p: &mut Packet, headroom: usize| match asks && shape.refuses_annotations(p) {
        true => None,
        false => K::change(shape, p, headroom),
    };
    let done = match link {
        Link::None => while_some(batch, |p| change(p, 0)),
        Link::Fixed(mac, rest) => while_some(batch, |p| {
            change(p, HEADER_LEN)?;
            p.push_link_header(&mac, &rest).then_some(())
        }),
        Link::Known(known, rest) => while_some(batch, |p| {
            let mac = known.get(K::Family::destination(p))?;
            change(p, HEADER_LEN)?;
            p.push_link_header(mac, &rest).then_some(())
        }),
    };
    if let Some(color) = shape.color {
        batch[..done].iter_mut().for_each(|p| p.set_paint(color));
    }
    done
}

/// How many packets `change` takes before the first it does not.
#[inline]
fn while_some(batch: &mut [Packet], mut change: impl FnMut(&mut Packet) -> Option<()>) -> usize {
    batch.iter_mut().position(|p| change(p).is_none()).unwrap_or(batch.len())
}
