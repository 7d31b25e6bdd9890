// SPDX-License-Identifier: MIT OR Apache-2.0
//! Databases of another process, by the handlers of its element IPsecDatabase.

use std::net::IpAddr;

use ipsec::text::{self, Keys};
use ipsec::{
    Action, AssociationConfig, ErrorKind, Event, Flow, Heard, Id, Policy, PolicyKey, Reached, SpiRange,
};
use wire::Protocol;
use zeroize::Zeroizing;

use crate::kernel::{All, Carried, Found, Kernel, Refusal, errno_of};
use crate::local::wall;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Calls of an element's handlers. A call fails with [`refusal_of`] what the element says, or with `ENETDOWN` if it cannot be reached.
#[allow(clippy::missing_errors_doc, reason = "stands above")]
pub trait Calls: Send {
    /// Reads a handler with a parameter.
    fn read(&mut self, handler: &str, parameter: &str) -> Result<String, Refusal>;
    /// Writes a handler.
    fn write(&mut self, handler: &str, value: &str) -> Result<(), Refusal>;
}

/// The refusal that an element's answer stands for: [`ipsec::Error::answer`], or other words about what it was asked.
pub fn refusal_of(answer: &str) -> Refusal {
    let (why, kind) = ErrorKind::split(answer);
    Refusal::new(errno_of(kind), why)
}

/// The databases behind an element's handlers.
pub struct Remote<C> {
    calls: C,
}

impl<C: Calls> Remote<C> {
    /// Those that these calls reach.
    pub fn new(calls: C) -> Remote<C> {
        Remote { calls }
    }

    /// Whether there is this very association, wherever it is by now.
    fn has(&mut self, mut config: AssociationConfig) -> bool {
        self.association(config.id()).is_ok_and(|Found { mut what, .. }| {
            (what.progress, config.progress) = Default::default();
            what == config
        })
    }

    /// Whether there is this very policy. Its number does not matter.
    fn has_policy(&mut self, mut policy: Policy) -> bool {
        self.policy(&policy.key()).is_ok_and(|Found { mut what, .. }| {
            (what.index, policy.index) = (0, 0);
            what == policy
        })
    }
}

fn exists(why: &Refusal) -> bool {
    why.errno == libc::EEXIST
}

/// What cannot be read is not shown: keys may be in it.
fn garbled(handler: &str) -> Refusal {
    let why = format!(
        "the router's database speaks another language: its handler {handler} says something unknown; update the older one of both"
    );
    Refusal::new(libc::EPROTO, why)
}

/// Lines, each with what stands behind a tab on the next one.
fn entries(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut lines = text.lines().peekable();
    std::iter::from_fn(move || {
        let line = lines.next()?;
        let more = lines.next_if(|next| next.starts_with('\t')).unwrap_or_default();
        Some((line, more))
    })
}

/// Words and numbers in turn. Times are nanoseconds before now.
fn carried_of(words: &str) -> Carried {
    let (mut carried, wall) = (Carried::default(), wall());
    let mut words = words.split_whitespace();
    while let Some(word) = words.next() {
        let Some(number) = words.next().and_then(|number| number.parse::<u64>().ok()) else { continue };
        let ago = || wall.saturating_sub(number / SECOND);
        match word {
            "bytes" => carried.usage.bytes = number,
            "packets" => carried.usage.packets = number,
            "replayed" => carried.replayed = number,
            "outside-window" => carried.too_old = number,
            "bad-icv" => carried.forged = number,
            "age_ns" => carried.made = ago(),
            "used_ns" => carried.used = ago(),
            _ => {}
        }
    }
    carried
}

fn association_of((line, more): (&str, &str)) -> Result<Found<AssociationConfig>, Refusal> {
    let what = text::parse_association(line).map_err(|_| garbled("export"))?;
    Ok(Found { what, carried: carried_of(more) })
}

fn policy_of((line, more): (&str, &str)) -> Result<Found<Policy>, Refusal> {
    let what = text::parse_policy(line).map_err(|_| garbled("policies"))?;
    Ok(Found { what, carried: carried_of(more) })
}

/// An association with its keys, for as long as they are needed.
fn words_of(config: &AssociationConfig) -> Zeroizing<String> {
    Zeroizing::new(text::show_association(config, Keys::Shown))
}

fn name_of(id: Id) -> String {
    format!("dst {} spi {:#x}", id.dst, id.spi)
}

impl<C: Calls> Kernel for Remote<C> {
    fn add(&mut self, config: AssociationConfig) -> Result<(), Refusal> {
        let done = self.calls.write("add_sa", &words_of(&config));
        // A request whose answer was lost is sent again.
        done.or_else(|why| if exists(&why) && self.has(config) { Ok(()) } else { Err(why) })
    }

    fn update(&mut self, config: AssociationConfig) -> Result<(), Refusal> {
        self.calls.write("adjust_sa", &words_of(&config))
    }

    fn remove(&mut self, id: Id) -> Result<(), Refusal> {
        self.calls.write("delete_sa", &name_of(id))
    }

    fn association(&mut self, id: Id) -> Result<Found<AssociationConfig>, Refusal> {
        let text = Zeroizing::new(self.calls.read("export", &name_of(id))?);
        entries(&text).next().ok_or_else(|| ipsec::Error::NoAssociation(id).into()).and_then(association_of)
    }

    fn associations(&mut self) -> Result<All<AssociationConfig>, Refusal> {
        let text = Zeroizing::new(self.calls.read("export", "")?);
        let all = entries(&text).map(association_of).collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(all.into_iter()))
    }

    fn count(&mut self) -> Result<usize, Refusal> {
        self.calls.read("count", "")?.trim().parse().map_err(|_| garbled("count"))
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        self.calls.write("flush_sas", "")
    }

    fn reserve(&mut self, dst: IpAddr, range: SpiRange) -> Result<u32, Refusal> {
        let wanted = format!("dst {dst} min {} max {}", range.start(), range.end());
        let spi = self.calls.read("reserve", &wanted)?;
        let digits = spi.trim().strip_prefix("0x").ok_or_else(|| garbled("reserve"))?;
        u32::from_str_radix(digits, 16).map_err(|_| garbled("reserve"))
    }

    fn set_policy(&mut self, policy: Policy, replaces: bool) -> Result<(), Refusal> {
        let handler = if replaces { "update_policy" } else { "add_policy" };
        let done = self.calls.write(handler, &text::show_policy(&policy));
        done.or_else(|why| if exists(&why) && self.has_policy(policy) { Ok(()) } else { Err(why) })
    }

    fn remove_policy(&mut self, key: &PolicyKey) -> Result<(), Refusal> {
        self.calls.write("delete_policy", &key.to_string())
    }

    fn policy(&mut self, key: &PolicyKey) -> Result<Found<Policy>, Refusal> {
        let text = self.calls.read("policies", &key.to_string())?;
        entries(&text)
            .next()
            .ok_or_else(|| ipsec::Error::NoPolicy(key.clone().into()).into())
            .and_then(policy_of)
    }

    fn policies(&mut self) -> Result<All<Policy>, Refusal> {
        let text = self.calls.read("policies", "")?;
        let all = entries(&text).map(policy_of).collect::<Result<Vec<_>, _>>()?;
        Ok(Box::new(all.into_iter()))
    }

    fn flush_policies(&mut self) -> Result<(), Refusal> {
        self.calls.write("flush_policies", "")
    }
}

/// Reads the events that a router's database has, each on a line, and `lost N` where some were lost. Lines that say something else are passed over.
pub fn heard_of(text: &str) -> Heard {
    let lost = text.lines().filter_map(|line| line.strip_prefix("lost ")?.parse::<u64>().ok()).sum();
    Heard { lost, events: text.lines().filter_map(event_of).collect(), next: 0 }
}

fn event_of(line: &str) -> Option<Event> {
    let (kind, rest) = line.split_once(' ')?;
    if kind == "acquire" {
        let (packet, policy) = rest.split_once(" policy ")?;
        return acquire_of(packet, policy);
    }
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [_dst, dst, _spi, spi, _reqid, reqid, more @ ..] = &words[..] else { return None };
    let id = Id { dst: dst.parse().ok()?, spi: u32::from_str_radix(spi.strip_prefix("0x")?, 16).ok()? };
    let reqid = reqid.parse().ok()?;
    match (kind, more) {
        ("expire", ["soft"]) => Some(Event::Expire { id, reqid, reached: Reached::Soft }),
        ("expire", ["hard"]) => Some(Event::Expire { id, reqid, reached: Reached::Hard }),
        ("mapping", ["from", addr, port, "to", new_addr, new_port]) => {
            let before = (addr.parse().ok()?, port.parse().ok()?);
            Some(Event::Mapping {
                id,
                reqid,
                before,
                after: (new_addr.parse().ok()?, new_port.parse().ok()?),
            })
        }
        _ => None,
    }
}

fn acquire_of(packet: &str, policy: &str) -> Option<Event> {
    // A packet is a selector of hosts.
    let selector = text::parse_policy(&format!("{packet} dir out")).ok()?.selector;
    let (src, dst) = (selector.src.as_host()?, selector.dst.as_host()?);
    let only =
        |ports: &std::ops::RangeInclusive<u16>| (ports.start() == ports.end()).then_some(*ports.start());
    let flow = Flow {
        src,
        dst,
        // The number 0 is written as any other, and read as any protocol.
        protocol: selector.protocol.unwrap_or(Protocol(0)),
        ports: only(&selector.sports).zip(only(&selector.dports)),
    };
    let policy = text::parse_policy(policy).ok()?;
    let Action::Protect(template) = policy.action.clone() else { return None };
    Some(Event::Acquire { flow, policy, template })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipsec::{Database, Usage};
    use std::sync::{Arc, Mutex};
    use sync::rcu::{Domain, Limits};

    /// What the element does, without an element.
    struct Handlers(Arc<Database>, Arc<Mutex<Vec<String>>>);

    impl Calls for Handlers {
        fn read(&mut self, handler: &str, parameter: &str) -> Result<String, Refusal> {
            self.1.lock().unwrap().push(format!("{handler} {parameter}"));
            let show = |association: &ipsec::Association| {
                let usage = association.lines.usage();
                let line = text::show_association(&association.config, Keys::Shown);
                format!(
                    "{line}\n\tsent 0 top 0 bytes {} packets {} age_ns 5000000000\n",
                    usage.bytes, usage.packets
                )
            };
            match handler {
                "export" if parameter.is_empty() => {
                    Ok(self.0.associations().iter().map(|sa| show(sa)).collect())
                }
                "export" => {
                    let id = text::parse_id(parameter).unwrap();
                    let found = self.0.association(id).ok_or(ipsec::Error::NoAssociation(id));
                    Ok(show(&*found.map_err(|why| refusal_of(&why.answer()))?))
                }
                "policies" if parameter.is_empty() => {
                    Ok(self.0.policies().iter().map(|rule| text::show_policy(&rule.policy) + "\n").collect())
                }
                "policies" => {
                    let key = text::parse_policy_key(parameter).unwrap();
                    let found = self.0.policy(&key);
                    let found =
                        found.ok_or_else(|| refusal_of(&ipsec::Error::NoPolicy(key.into()).answer()))?;
                    Ok(text::show_policy(&found.policy) + "\n\tused_ns 3000000000\n")
                }
                "count" => Ok(format!("{}\n", self.0.associations().len())),
                _ => Ok("0x00000123\n".to_owned()),
            }
        }

        fn write(&mut self, handler: &str, value: &str) -> Result<(), Refusal> {
            let failed = |why: ipsec::Error| refusal_of(&format!("db.{handler}: {}", why.answer()));
            match handler {
                "add_sa" => {
                    let config = text::parse_association(value).unwrap();
                    self.0.add(config, false, 0).map(drop).map_err(failed)
                }
                "adjust_sa" => self.0.adjust(text::parse_association(value).unwrap(), 0).map_err(failed),
                "delete_sa" => self.0.remove(text::parse_id(value).unwrap()).map(drop).map_err(failed),
                "add_policy" | "update_policy" => self
                    .0
                    .set_policy(text::parse_policy(value).unwrap(), handler == "update_policy")
                    .map_err(failed),
                "delete_policy" => {
                    self.0.remove_policy(&text::parse_policy_key(value).unwrap()).map(drop).map_err(failed)
                }
                "flush_sas" => {
                    self.0.flush();
                    Ok(())
                }
                _ => {
                    self.0.flush_policies();
                    Ok(())
                }
            }
        }
    }

    fn remote() -> (Remote<Handlers>, Arc<Database>) {
        let database = Arc::new(Database::new(&Domain::new(Limits::default()), 1));
        (Remote::new(Handlers(database.clone(), Arc::default())), database)
    }

    #[test]
    fn what_is_put_in_comes_back() {
        let (mut remote, database) = remote();
        let text = "src 192.0.2.1 dst 198.51.100.1 spi 256 reqid 7 aead aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213 128";
        let config = text::parse_association(text).unwrap();
        remote.add(config.clone()).unwrap();
        remote.update(config.clone()).unwrap();
        database.associations()[0].lines.passed(0, 100, 1);
        let found = remote.association(config.id()).unwrap();
        assert_eq!((found.what, found.carried.usage), (config.clone(), Usage { packets: 1, bytes: 100 }));
        assert!(found.carried.made <= wall() - 5);
        assert_eq!((remote.associations().unwrap().count(), remote.count().unwrap()), (1, 1));
        remote.remove(config.id()).unwrap();
        assert_eq!(remote.remove(config.id()).unwrap_err().errno, libc::ESRCH);
        assert_eq!(remote.association(config.id()).unwrap_err().errno, libc::ESRCH);
        assert_eq!(remote.reserve(config.dst, 0x100..=0x1ff).unwrap(), 0x123);
        let policy = "src 10.1.0.0/16 dst 10.2.0.0/16 dir out priority 5 tmpl src 192.0.2.1 dst 198.51.100.1 reqid 7 mode tunnel";
        let policy = text::parse_policy(policy).unwrap();
        remote.set_policy(policy.clone(), false).unwrap();
        remote.set_policy(policy.clone(), true).unwrap();
        assert_eq!(remote.policy(&policy.key()).unwrap().what.action, policy.action);
        remote.remove_policy(&policy.key()).unwrap();
        assert_eq!(remote.remove_policy(&policy.key()).unwrap_err().errno, libc::ENOENT);
        remote.flush().unwrap();
        remote.flush_policies().unwrap();
    }

    #[test]
    fn what_cannot_be_read_is_not_shown() {
        struct Liar;
        impl Calls for Liar {
            fn read(&mut self, _: &str, _: &str) -> Result<String, Refusal> {
                Ok("0x000102030405060708090a0b0c0d0e0f10111213 is a key".to_owned())
            }
            fn write(&mut self, _: &str, _: &str) -> Result<(), Refusal> {
                Ok(())
            }
        }
        let mut remote = Remote::new(Liar);
        let all = [
            remote.associations().err(),
            remote.association(Id { dst: [192, 0, 2, 1].into(), spi: 256 }).err(),
            remote.policies().err(),
            remote.count().err(),
            remote.reserve([192, 0, 2, 1].into(), 1..=2).err(),
        ];
        for why in all.map(Option::unwrap) {
            assert!(why.errno == libc::EPROTO && !why.why.contains("0001"), "{why}");
        }
    }

    /// As when the answer to the first request was lost: the second one changes nothing, and succeeds.
    #[test]
    fn the_same_again_is_no_error() {
        let (mut remote, database) = remote();
        let config = |more: &str| {
            let text = "src 192.0.2.1 dst 198.51.100.1 spi 256 aead aes-gcm 0x000102030405060708090a0b0c0d0e0f1011121";
            text::parse_association(&format!("{text}{more}")).unwrap()
        };
        remote.add(config("3 128")).unwrap();
        let association = database.associations().remove(0);
        association.sa.take_numbers(3).unwrap();
        remote.add(config("3 128")).unwrap();
        assert_eq!(database.associations()[0].sa.sent(), 3, "it goes on");
        for other in ["4 128", "3 96", "3 128 limit time-hard 9", "3 128 reqid 7"] {
            assert_eq!(remote.add(config(other)).unwrap_err().errno, libc::EEXIST, "{other}");
        }
        let policy = |text: &str| {
            text::parse_policy(&format!("src 10.1.0.0/16 dst 10.2.0.0/16 dir out {text}")).unwrap()
        };
        remote.set_policy(policy("priority 5"), false).unwrap();
        remote.set_policy(policy("priority 5"), false).unwrap();
        assert_eq!(remote.set_policy(policy("priority 6"), false).unwrap_err().errno, libc::EEXIST);
    }

    /// The kind of an error in an element's answer leads to the number that it has in one process. People do not see the kind.
    #[test]
    fn errors_keep_their_numbers() {
        let id = Id { dst: [192, 0, 2, 1].into(), spi: 256 };
        let key = text::parse_policy_key("dir out").unwrap();
        use ipsec::Error as E;
        for (error, errno) in [
            (E::Exists(id), libc::EEXIST),
            (E::NoAssociation(id), libc::ESRCH),
            (E::PolicyExists(key.clone().into()), libc::EEXIST),
            (E::NoPolicy(key.into()), libc::ENOENT),
            (E::Encapsulation(id), libc::EINVAL),
            (E::NoSpi(1..=2), libc::ENOENT),
            (E::Busy, libc::EBUSY),
        ] {
            let text = format!("Write handler 'db.add_sa' error: {}", error.answer());
            let (why, here) = (refusal_of(&text), Refusal::from(error));
            assert_eq!((why.errno, here.errno), (errno, errno), "{text}");
            assert!(why.why.ends_with(&here.why), "{why}");
        }
        assert_eq!(refusal_of("there is an association with words of its own").errno, libc::EINVAL);
    }

    #[test]
    fn events_are_read() {
        let text = "lost 17\n\
                    acquire src 10.1.0.9 dst 10.2.0.9 proto udp sport 4000 dport 53 policy src 10.1.0.0/16 dst 10.2.0.0/16 dir out priority 5 index 9 tmpl src 192.0.2.1 dst 198.51.100.1 proto esp reqid 7 mode tunnel\n\
                    acquire src 10.1.0.9 dst 10.2.0.9 proto gre policy src 10.1.0.0/16 dst 10.2.0.0/16 dir out priority 5 tmpl proto esp reqid 7 mode transport\n\
                    expire dst 198.51.100.1 spi 0x00000100 reqid 7 soft\n\
                    something new\n\
                    mapping dst 198.51.100.1 spi 0x00000100 reqid 7 from 192.0.2.1 4500 to 192.0.2.9 61000\n\
                    expire dst 2001:db8::1 spi 0xc0000001 reqid 7 hard\n\
                    acquire src 10.1.0.9 dst 10.2.0.9 proto 0 policy src 10.1.0.0/16 dst 10.2.0.0/16 dir out priority 5 tmpl proto esp reqid 7 mode transport\n";
        let Heard { lost, events, .. } = heard_of(text);
        assert_eq!((lost, events.len()), (17, 6));
        assert!(matches!(&events[5], Event::Acquire { flow: Flow { protocol: Protocol(0), .. }, .. }));
        let Event::Acquire { flow, template, .. } = &events[0] else { panic!("acquire") };
        assert_eq!((flow.ports, template.reqid), (Some((4000, 53)), 7));
        assert!(matches!(&events[1], Event::Acquire { flow: Flow { ports: None, .. }, .. }));
        assert!(matches!(events[2], Event::Expire { reached: Reached::Soft, reqid: 7, .. }));
        assert!(matches!(events[3], Event::Mapping { after: (_, 61000), .. }));
        let Event::Expire { id, reached: Reached::Hard, .. } = events[4] else { panic!("expire") };
        assert_eq!(id.spi, 0xc000_0001);
    }
}
