// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor nat log --ipfix`: the journal of a translator, sent to a collector.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::Failure;
use ipfix::{Change, Event, Exporter, Format, Quota, Settings, What};
use rulefile::names;
use views::answers::Events;
use views::nat as view;

use crate::findings::take_journal;

/// After so many messages, a pause lets a collector take them from its socket.
const AT_ONCE: usize = 32;
const PAUSE: Duration = Duration::from_millis(10);
/// How long the end of a command waits for word that nobody listens.
const REFUSAL: Duration = Duration::from_millis(200);

/// Where events are sent, and how.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Export {
    /// Send the events to this collector by UDP, in place of printing them: IPFIX (RFC 7011, RFC 8158).
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "json")]
    ipfix: Option<String>,
    /// Send NetFlow v9 in place of IPFIX, for collectors that know NAT event logging (NEL), such as nfcapd.
    #[arg(long, requires = "ipfix")]
    netflow9: bool,
    /// The observation domain: a number for each translator that sends from one address.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "ipfix")]
    domain: u32,
    /// Octets of a packet at most, headers of IP and UDP included.
    #[arg(long, value_name = "OCTETS", default_value_t = 1400, value_parser = clap::value_parser!(u16).range(256..), requires = "ipfix")]
    mtu: u16,
}

impl Export {
    /// The collector, if one is named.
    ///
    /// # Errors
    /// There is no such host, or no way to it.
    pub(crate) fn open(&self) -> Result<Option<Collector>, String> {
        let Some(name) = &self.ipfix else { return Ok(None) };
        let address = resolve(name)?;
        let (any, headers): (SocketAddr, u16) = match address {
            SocketAddr::V4(_) => ((Ipv4Addr::UNSPECIFIED, 0).into(), 20 + 8),
            SocketAddr::V6(_) => ((Ipv6Addr::UNSPECIFIED, 0).into(), 40 + 8),
        };
        let socket = UdpSocket::bind(any).and_then(|socket| socket.connect(address).map(|()| socket));
        let socket = socket.map_err(|why| format!("--ipfix {name}: {why}"))?;
        let format = if self.netflow9 { Format::NetFlow9 } else { Format::Ipfix };
        let message_octets_max = usize::from(self.mtu - headers);
        let settings = Settings {
            domain: self.domain,
            process: std::process::id(),
            message_octets_max,
            ..Settings::new(format)
        };
        let exporter =
            Exporter::new(settings, now_ms()).map_err(|why| format!("--mtu {}: {why}", self.mtu))?;
        errln!(
            "junctor: sends {} to {address}, domain {}, in messages of at most {message_octets_max} octets",
            format.name(),
            self.domain
        );
        Ok(Some(Collector { socket, exporter, name: name.clone(), events: 0, problem: None }))
    }
}

/// The first address of a host and a port.
fn resolve(name: &str) -> Result<SocketAddr, String> {
    let example = "name a host and a port, such as 198.51.100.9:4739 or [2001:db8::9]:4739";
    let mut all = name.to_socket_addrs().map_err(|why| match why.kind() {
        ErrorKind::InvalidInput => format!("--ipfix {name}: {example}"),
        _ => format!("--ipfix {name}: {why}"),
    })?;
    all.next().ok_or_else(|| format!("--ipfix {name}: the host has no address"))
}

/// A collector, and what it has been sent.
pub(crate) struct Collector {
    socket: UdpSocket,
    exporter: Exporter,
    name: String,
    events: u64,
    /// Why messages do not get there, as it has been reported.
    problem: Option<ErrorKind>,
}

impl Collector {
    /// Sends the events of a journal; with `follow` until it is interrupted.
    pub(crate) fn send_journal(
        &mut self,
        follow: bool,
        read: impl FnMut(u64) -> Result<Events<view::Event>, Failure>,
    ) -> Result<(), Failure> {
        let (mut is_first, mut next) = (true, 0);
        take_journal(follow, 0, read, |events| {
            let first = events.all.first().map_or(events.next, |event| event.number);
            if is_first && first > 0 {
                errln!(
                    "junctor: events before number {first} are not sent: the journal has only the last ones"
                );
            }
            (is_first, next) = (false, events.next);
            self.send(events);
        })?;
        self.await_refusal();
        let messages = self.exporter.messages();
        errln!("junctor: sent {} events in {messages} messages; event {next} comes next", self.events);
        Ok(())
    }

    /// Whether nothing says that messages do not get there.
    pub(crate) fn is_reached(&self) -> bool {
        self.problem.is_none()
    }

    /// Sends these events, how many are gone, and templates whose time has come.
    fn send(&mut self, events: &Events<view::Event>) {
        let now_ms = now_ms();
        let mut messages = Vec::new();
        if events.gone > 0 {
            messages = self.exporter.not_sent(now_ms, events.gone);
        }
        let records: Vec<Event> = events.all.iter().filter_map(record).collect();
        messages.extend(self.exporter.export(now_ms, &records));
        self.events += records.len() as u64;
        for (n, message) in messages.iter().enumerate() {
            if n > 0 && n % AT_ONCE == 0 {
                std::thread::sleep(PAUSE);
            }
            self.send_message(message);
        }
        if let Ok(Some(why)) = self.socket.take_error() {
            self.report(&why);
        }
    }

    fn send_message(&mut self, message: &[u8]) {
        let mut sent = self.socket.send(message);
        if let Err(why) = &sent
            && why.kind() == ErrorKind::ConnectionRefused
        {
            // That was about an earlier message, and this one has not been sent.
            self.report(why);
            sent = self.socket.send(message);
        }
        if let Err(why) = &sent {
            self.report(why);
        }
    }

    /// Waits a moment for an ICMP error about the last messages.
    fn await_refusal(&mut self) {
        let heard = self.socket.set_read_timeout(Some(REFUSAL)).and_then(|()| self.socket.recv(&mut [0]));
        match heard {
            Err(why) if ![ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&why.kind()) => {
                self.report(&why)
            }
            _ => {}
        }
    }

    /// Reports why messages do not get there, once for each reason.
    fn report(&mut self, why: &io::Error) {
        // A collector that comes back has to know them.
        self.exporter.resend_templates();
        if self.problem.replace(why.kind()) != Some(why.kind()) {
            match why.kind() {
                ErrorKind::ConnectionRefused => {
                    errln!("junctor: {}: nobody listens there; events are sent all the same", self.name);
                }
                _ => errln!("junctor: {}: {why}; events are sent all the same", self.name),
            }
        }
    }
}

/// The record of an event (RFC 8158). A pool is known by the line of its statement.
fn record(event: &view::Event) -> Option<Event> {
    let change = match event.what {
        view::What::Given | view::What::Begun => Change::Created,
        _ => Change::Deleted,
    };
    let inside = event.inside_address()?;
    let protocol = || names::protocol(event.protocol.as_deref()?);
    let what = match event.what {
        view::What::Given | view::What::Returned if event.protocol.is_none() => {
            What::Block { change, inside, outside: event.outside?, ports: event.ports? }
        }
        view::What::Given | view::What::Returned => What::Binding {
            change,
            protocol: protocol()?,
            inside,
            inside_port: event.inside_port,
            outside: (event.outside?, event.ports?.0),
        },
        view::What::Begun | view::What::Ended => What::Session {
            change,
            protocol: protocol()?,
            inside: (inside, event.inside_port?),
            outside: (event.outside?, event.ports?.0),
            peer: event.peer,
        },
        view::What::HostLimit => What::QuotaExceeded(Quota::OfHost { inside, most: event.number_max? }),
        view::What::TableFull => What::QuotaExceeded(Quota::Sessions(event.number_max?)),
        view::What::NoPort => match event.outside {
            Some(outside) => What::PortsExhausted { outside, protocol: protocol()? },
            None => What::AddressesExhausted { pool: event.number_max? },
        },
    };
    Some(Event { at_ms: event.at_ns / 1_000_000, what })
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_records() {
        let event = |what, protocol: Option<&str>, ports| view::Event {
            number: 7,
            at_ns: 1_700_000_000_123_456_789,
            what,
            protocol: protocol.map(str::to_owned),
            inside: "10.0.1.5".to_owned(),
            inside_port: protocol.map(|_| 9),
            outside: Some([192, 0, 2, 1].into()),
            ports: Some(ports),
            peer: (what == view::What::Begun).then(|| ([203, 0, 113, 1].into(), 80)),
            number_max: Some(3),
        };
        let nowhere = |what| view::Event { outside: None, ..event(what, Some("udp"), (0, 0)) };
        let (inside, outside) = ([10, 0, 1, 5].into(), [192, 0, 2, 1].into());
        for (event, what) in [
            (
                event(view::What::Given, None, (1024, 1535)),
                Some(What::Block { change: Change::Created, inside, outside, ports: (1024, 1535) }),
            ),
            (
                event(view::What::Returned, Some("udp"), (4000, 4000)),
                Some(What::Binding {
                    change: Change::Deleted,
                    protocol: 17,
                    inside,
                    inside_port: Some(9),
                    outside: (outside, 4000),
                }),
            ),
            (
                event(view::What::Begun, Some("tcp"), (4000, 4000)),
                Some(What::Session {
                    change: Change::Created,
                    protocol: 6,
                    inside: (inside, 9),
                    outside: (outside, 4000),
                    peer: Some(([203, 0, 113, 1].into(), 80)),
                }),
            ),
            (
                event(view::What::NoPort, Some("tcp"), (0, 0)),
                Some(What::PortsExhausted { outside, protocol: 6 }),
            ),
            (nowhere(view::What::NoPort), Some(What::AddressesExhausted { pool: 3 })),
            (nowhere(view::What::TableFull), Some(What::QuotaExceeded(Quota::Sessions(3)))),
            (nowhere(view::What::HostLimit), Some(What::QuotaExceeded(Quota::OfHost { inside, most: 3 }))),
            // A router of an earlier version does not say how many.
            (view::Event { number_max: None, ..nowhere(view::What::HostLimit) }, None),
        ] {
            assert_eq!(record(&event), what.map(|what| Event { at_ms: 1_700_000_000_123, what }));
        }
    }

    #[test]
    fn collectors_have_a_host_and_a_port() {
        for (name, found) in [
            ("192.0.2.9:4739", Ok("192.0.2.9:4739")),
            ("[2001:db8::9]:4739", Ok("[2001:db8::9]:4739")),
            ("192.0.2.9", Err("name a host and a port, such as 198.51.100.9:4739")),
            ("192.0.2.9:99999", Err("name a host and a port")),
        ] {
            let resolved = resolve(name);
            match found {
                Ok(address) => {
                    assert_eq!(resolved.map(|address| address.to_string()).as_deref(), Ok(address))
                }
                Err(said) => assert!(resolved.as_ref().is_err_and(|why| why.contains(said)), "{resolved:?}"),
            }
        }
    }
}
