// SPDX-License-Identifier: MIT OR Apache-2.0
//! # IPsecDatabase
//!
//! `IPsecDatabase([keywords SA, POLICY])`
//!
//! Holds IPsec's security associations and security policies for IPsecEncrypt, IPsecDecrypt and IPsecCheck.
//!
//! Texts are those of `ip xfrm`. Associations and policies come from the configuration, by handlers, and from a key daemon.
//!
//! **Ports:** none.
//!
//! **Arguments**
//! * `SA` an association, as `ip xfrm state add` takes it. May be repeated. A name with a comma in it is to be quoted, or to be written as
//!   `chacha20-poly1305`, `aes-gcm`, `aes-gmac`, `aes-cbc`, `sha1`, `sha256`, `sha384`, `sha512`. Words beyond those of `ip xfrm`: `df copy|set|clear`, `ttl N` and
//!   `tfcpad N` for outer headers; `progress SENT TOP BITMAP` and `carried BYTES PACKETS SECONDS [SECONDS]` (since it was made, since its first packet) for one that goes on. `dummies N` has IPsecDummies fill it up to N packets a
//!   second. With `encap`, `keepalive SECONDS` has IPsecDummies send a keep-alive (RFC 3948) when nothing else has left for that time; default 0, none. `replay-window` is 1024 where it is not given; 0 switches it off.
//! * `POLICY` a policy, as `ip xfrm policy add` takes it, with one `tmpl` at most. May be repeated. Ports may be ranges, as `dport 1024-65535`.
//!
//! A policy's association is the newest that fits its template: mode, ends, `reqid` if it is not 0, `spi` if it is given. While there is none, packets are dropped as
//! `no-sa`, unless the template says `level use`, and an event asks for one every 5 s.
//!
//! A hot swap keeps all associations and policies of the element of the same name, with their sequence numbers and windows, but those that only the old
//! configuration has. Those that only the new one has are added. One whose SPI and key the old configuration has elsewhere goes on from that: for another address, or in an element of
//! another name, also an ESPTunnel.
//!
//! **Handlers**
//! * `sas` read: each association on a line, without its keys, and behind a tab what it has carried and refused, and how many of its packets were dummies. `policies` read: each policy on a line, and behind a tab how
//!   long ago a packet met it, to the second; a parameter with direction and selector names a single one.
//!   `count` read: how many associations there are. `npolicies` read: how many policies.
//! * `export` read: as `sas`, with keys. A parameter `dst ADDRESS spi NUMBER` names a single one, for `sas` as well.
//! * `add_sa` write, `update_sa` write: an association. The second one takes the place of one with the same address and SPI, if there is one. `adjust_sa` write: an
//!   association, whose limits and UDP ports the one with the same address and SPI gets; keys, sequence numbers, window and counts stay. It is added only if its SPI was
//!   reserved. `delete_sa` write: `dst ADDRESS spi NUMBER`, of an association or a reserved SPI. `flush_sas` write.
//! * `add_policy` write, `update_policy` write: a policy. The second one takes the place of one with the same direction and selector. `delete_policy`
//!   write: direction and selector. `flush_policies` write.
//! * `reserve` read: an SPI that no association has, for 165 s. The parameter is `dst ADDRESS [min N] [max N]`.
//! * `path_mtu` write: `dst ADDRESS spi NUMBER BYTES`: the longest packet that the association's path takes. It counts for ten minutes.
//! * `events` read: events, a line each: `acquire`, `expire`, `mapping`. The parameter is `[MS [CURSOR]]`: how many milliseconds to wait for one, default 0, and which
//!   event is the first. The last line is `next CURSOR`, for the next call. `now`, the default, stands for the next event that happens. The latest 4,096 are kept; if
//!   some before them are wanted, the first line is `lost N`. A call gives 256 at most.
//! * `take_events` read: the same for the key daemon, `[MS]`: events that this handler has not given yet. `lost_events` read: how many made way for others before they were
//!   taken.
//!
//! **Drops:** none; IPsecEncrypt, IPsecDecrypt and IPsecCheck drop.
//!
//! The answer of a handler that failed ends with a word in brackets, for programs: `[exists]`, `[no-association]`, `[no-policy]`, `[no-spi]`, `[busy]`, `[invalid]`. After `[busy]` the same call may succeed later.
//!
//! Keys are secrets: handlers other than `export`, recordings and messages show `***` in their place.
//!
//! ```click
//! db :: IPsecDatabase(
//!     SA src 192.0.2.1 dst 192.0.2.2 spi 0x100 reqid 1 mode tunnel aead aes-gcm 0x000102030405060708090a0b0c0d0e0f10111213 128,
//!     SA src 192.0.2.2 dst 192.0.2.1 spi 0x200 reqid 1 mode tunnel aead aes-gcm 0x202122232425262728292a2b2c2d2e2f30313233 128,
//!     POLICY src 10.1.0.0/16 dst 10.2.0.0/16 dir out tmpl src 192.0.2.1 dst 192.0.2.2 reqid 1 mode tunnel,
//!     POLICY src 10.2.0.0/16 dst 10.1.0.0/16 dir fwd tmpl src 192.0.2.2 dst 192.0.2.1 reqid 1 mode tunnel);
//! Idle -> CheckIPHeader -> enc :: IPsecEncrypt(db) -> Discard;
//! ```
//!
//! See also: IPsecEncrypt, IPsecDecrypt, IPsecCheck, IPsecDummies, ESPTunnel. RFC 4301, RFC 4303

use element::clock::Nanos;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use element::args::{Args, FromArg, Names};
use element::swap::{self, DevicePool};
use element::{
    Class, Cx, DeviceQueues, Element, HandlerError, HotSwap, InitCx, LongHandlers, OpenCx, Provide, Provided,
    Rest, SharedState, Sharing, Tasks, handlers,
};
use ipsec::text::{self, Keys};
use ipsec::{AssociationConfig, Configured, Database, Error, Policy};

use super::following::Following;

/// The descriptor.
pub const CLASS: Class = Class::new("IPsecDatabase", "0/0", || Box::new(IpsecDatabase::default()))
    .sharing(Sharing::Shared)
    .secrets(secrets)
    .handlers(handlers! { IpsecDatabase:
        read "sas" => |element, cx, id: &str| element.show(Keys::Hidden, id, cx.now())?;
        read "export" => |element, cx, id: &str| element.show(Keys::Shown, id, cx.now())?;
        read "policies" => |element, cx, key: &str| element.show_policies(key, cx.now())?;
        read "count" => |element| element.database.association_count();
        read "npolicies" => |element| element.database.policy_count();
        read "reserve" => |element, cx, text: &str| {
            let wanted = text::parse_reservation(text).map_err(mistaken)?;
            let spi = element.database.reserve(wanted.dst, wanted.range, cx.now(), || cx.random().u32(..));
            spi.map(|spi| format!("{spi:#010x}")).map_err(failed)?
        };
        read "events" => |element, text: &str| events(&element.database, "events", text, Duration::ZERO)?;
        read "take_events" => |element, text: &str| events(&element.database, "take_events", text, Duration::ZERO)?;
        read "lost_events" => |element| element.database.events.lost();
        write "add_sa" => |element, cx, text: &str| {
            element.database.add(association(text)?, false, cx.now()).map_err(failed)?;
            element.following.tick(cx);
        };
        write "update_sa" => |element, cx, text: &str| {
            element.database.add(association(text)?, true, cx.now()).map_err(failed)?;
            element.following.tick(cx);
        };
        write "adjust_sa" => |element, cx, text: &str| {
            element.database.adjust(association(text)?, cx.now()).map_err(failed)?;
            element.following.tick(cx);
        };
        write "delete_sa" => |element, cx, text: &str| {
            let id = text::parse_id(text).map_err(mistaken)?;
            if !element.database.give_back(id, cx.now()) {
                element.database.remove(id).map_err(failed)?;
            }
            element.following.tick(cx);
        };
        write "flush_sas" => |element, cx| {
            element.database.flush();
            element.following.tick(cx);
        };
        write "add_policy" => |element, cx, text: &str| {
            element.database.set_policy(text::parse_policy(text).map_err(mistaken)?, false).map_err(failed)?;
            element.following.tick(cx);
        };
        write "update_policy" => |element, cx, text: &str| {
            element.database.set_policy(text::parse_policy(text).map_err(mistaken)?, true).map_err(failed)?;
            element.following.tick(cx);
        };
        write "delete_policy" => |element, cx, text: &str| {
            element.database.remove_policy(&text::parse_policy_key(text).map_err(mistaken)?).map_err(failed)?;
            element.following.tick(cx);
        };
        write "flush_policies" => |element, cx| {
            element.database.flush_policies();
            element.following.tick(cx);
        };
        write "path_mtu" => |element, cx, text: &str| {
            element.set_path_mtu(text, cx.now())?;
            element.following.tick(cx);
        };
    })
    .hot_swap::<IpsecDatabase>().device_queues::<IpsecDatabase>().shared_state::<IpsecDatabase>().long_handlers::<IpsecDatabase>().provide::<IpsecDatabase>().file(file!());

/// Events that a call takes at most.
const EVENTS: usize = 256;
/// The longest that a call waits for an event.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where keys stand in an argument or a message.
pub(super) fn secrets(text: &str) -> Vec<Range<usize>> {
    text::secrets(text)
}

/// An argument without its keys.
pub(super) fn hidden(text: &str) -> String {
    let mut shown = text.to_owned();
    secrets(text).into_iter().rev().for_each(|place| shown.replace_range(place, "***"));
    shown
}

#[derive(Clone, PartialEq)]
struct Sa(AssociationConfig);

impl FromArg for Sa {
    const EXPECTED: &'static str = "an association, as 'ip xfrm state add' takes it";

    fn shown(text: &str) -> std::borrow::Cow<'_, str> {
        hidden(text).into()
    }

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        text::parse_association(text).map(Sa).map_err(|why| hidden(&why.to_string()))
    }
}

#[derive(Clone, PartialEq)]
struct Rule(Policy);

impl FromArg for Rule {
    const EXPECTED: &'static str = "a policy, as 'ip xfrm policy add' takes it";

    fn shown(text: &str) -> std::borrow::Cow<'_, str> {
        hidden(text).into()
    }

    fn from_arg(text: &str, _: &Names) -> Result<Self, String> {
        text::parse_policy(text).map(Rule).map_err(|why| hidden(&why.to_string()))
    }
}

/// Finds the database of an element.
pub(super) fn find(cx: &mut InitCx<'_>, name: &str) -> Result<Arc<Database>, String> {
    cx.find::<Database>(name).ok_or_else(|| format!("DATABASE: '{name}' is not an IPsecDatabase"))
}

#[derive(Clone)]
struct IpsecDatabase {
    following: Following,
    database: Arc<Database>,
}

impl Default for IpsecDatabase {
    fn default() -> Self {
        Following::new(&sync::rcu::Domain::default(), Configured::default()).into()
    }
}

impl From<Following> for IpsecDatabase {
    fn from(following: Following) -> Self {
        IpsecDatabase { database: following.database.clone(), following }
    }
}

impl IpsecDatabase {
    /// What the configuration says.
    fn configured(sas: Vec<Sa>, policies: Vec<Rule>) -> Result<Configured, String> {
        let mut configured = Configured::default();
        for Sa(config) in sas {
            configured.add(config).map_err(|why| format!("SA: {why}"))?;
        }
        for Rule(policy) in policies {
            configured.add_policy(policy).map_err(|why| format!("POLICY: {why}"))?;
        }
        Ok(configured)
    }

    fn show(&self, keys: Keys, param: &str, now_ns: u64) -> Result<String, HandlerError> {
        let line = |association: &ipsec::Association| text::show_state(association, keys, now_ns) + "\n";
        if param.is_empty() {
            return Ok(self.database.associations().iter().map(|association| line(association)).collect());
        }
        let id = text::parse_id(param).map_err(mistaken)?;
        let found = self.database.association(id);
        found.map(|found| line(&found)).ok_or_else(|| failed(Error::NoAssociation(id)))
    }

    fn show_policies(&self, param: &str, now_ns: u64) -> Result<String, HandlerError> {
        let line = |rule: &ipsec::Rule| {
            let used = rule.last_use_ns().map(|used| format!("\tused_ns {}\n", now_ns.saturating_sub(used)));
            text::show_policy(&rule.policy) + "\n" + &used.unwrap_or_default()
        };
        if param.is_empty() {
            return Ok(self.database.policies().iter().map(|rule| line(rule)).collect());
        }
        let key = text::parse_policy_key(param).map_err(mistaken)?;
        let found = self.database.policy(&key);
        found.map(|rule| line(&rule)).ok_or_else(|| failed(Error::NoPolicy(key.into())))
    }

    fn set_path_mtu(&self, text: &str, now: Nanos) -> Result<(), HandlerError> {
        let expected = || HandlerError::Failed("expected 'dst ADDRESS spi NUMBER BYTES'".into());
        let (id, mtu) = text.trim().rsplit_once(char::is_whitespace).ok_or_else(expected)?;
        let mtu = mtu.parse().map_err(|_| expected())?;
        let id = text::parse_id(id).map_err(mistaken)?;
        let association = self.database.association(id).ok_or_else(|| failed(Error::NoAssociation(id)))?;
        association.set_path_mtu(mtu, now);
        Ok(())
    }
}

fn association(text: &str) -> Result<AssociationConfig, HandlerError> {
    text::parse_association(text).map_err(mistaken)
}

fn mistaken(why: text::Mistake) -> HandlerError {
    HandlerError::Failed(hidden(&why.to_string()))
}

fn failed(why: Error) -> HandlerError {
    HandlerError::Failed(why.answer())
}

impl Element for IpsecDatabase {
    fn configure(&mut self, args: &mut Args<'_>) {
        let (sas, policies) = (args.keyword_all("SA"), args.keyword_all("POLICY"));
        if args.errors().is_empty() {
            match Self::configured(sas, policies) {
                Ok(configured) => *self = Following::new(&args.rcu, configured).into(),
                Err(why) => args.error(why),
            }
        }
    }

    fn open(&mut self, cx: &mut OpenCx<'_>) -> Result<Tasks, String> {
        self.following.open(cx, cx.predecessor::<Database>())?;
        self.database = self.following.database.clone();
        Ok(Tasks::None)
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), String> {
        if cx.is_home() {
            self.following.tick(cx);
        }
        Ok(())
    }

    fn run_timer(&mut self, cx: &mut Cx<'_>, _: u32) {
        self.following.tick(cx);
    }
}

impl Provide for IpsecDatabase {
    fn provide(&self) -> Option<Provided> {
        Some(self.database.clone())
    }
}

impl LongHandlers for IpsecDatabase {
    fn read_apart(&mut self, cx: &mut Cx<'_>, name: &str, param: &str) -> Option<Rest<String>> {
        let (element, now, param) = (self.clone(), cx.now(), param.to_owned());
        match name {
            "sas" => Some(Box::new(move || element.show(Keys::Hidden, &param, now))),
            "export" => Some(Box::new(move || element.show(Keys::Shown, &param, now))),
            "policies" => Some(Box::new(move || element.show_policies(&param, now))),
            "events" => Some(Box::new(move || events(&element.database, "events", &param, PATIENCE))),
            "take_events" => {
                Some(Box::new(move || events(&element.database, "take_events", &param, PATIENCE)))
            }
            _ => None,
        }
    }
}

impl SharedState for IpsecDatabase {
    fn share(&self) -> Option<Box<dyn Element>> {
        Some(Box::new(self.clone()))
    }
}

impl DeviceQueues for IpsecDatabase {
    fn acquire(&mut self, cx: &mut Cx<'_>, _: &mut DevicePool) {
        self.following.go_on(cx, None);
    }
}

impl HotSwap for IpsecDatabase {
    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) -> bool {
        let Some(old) = swap::same::<IpsecDatabase>(old) else { return false };
        self.following.go_on(cx, Some(&old.following));
        true
    }
}

/// What `events` and `take_events` give.
fn events(database: &Database, name: &str, param: &str, longest: Duration) -> Result<String, HandlerError> {
    let mut words = param.split_whitespace();
    let number = |word: &str| {
        word.parse::<u64>().map_err(|_| HandlerError::Failed("expected '[MILLISECONDS [CURSOR]]'".into()))
    };
    let wait = words.next().map_or(Ok(0), number)?;
    let wait = Duration::from_millis(wait).min(longest);
    let takes = name == "take_events";
    let heard = match words.next().unwrap_or("now") {
        _ if takes => database.events.take(EVENTS, wait),
        "now" => database.events.read(database.events.end(), EVENTS, wait),
        cursor => database.events.read(number(cursor)?, EVENTS, wait),
    };
    let lost = if heard.lost > 0 { format!("lost {}\n", heard.lost) } else { String::new() };
    let lines: String = heard.events.iter().map(|event| text::show_event(event) + "\n").collect();
    let next = if takes { String::new() } else { format!("next {}\n", heard.next) };
    Ok(lost + &lines + &next)
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::testing::Rig;

    /// A gateway between 10.1.0.0/16 and 10.2.0.0/16, behind 192.0.2.2.
    pub(crate) const POLICIES: &str = "POLICY src 10.1.0.0/16 dst 10.2.0.0/16 dir out tmpl src 192.0.2.1 dst 192.0.2.2 reqid 1 mode tunnel, \
         POLICY src 10.2.0.0/16 dst 10.1.0.0/16 dir fwd tmpl src 192.0.2.2 dst 192.0.2.1 reqid 1 mode tunnel, \
         POLICY src 10.66.0.0/16 dst 0.0.0.0/0 dir in action block, \
         POLICY src 0.0.0.0/0 dst 10.66.0.0/16 dir out action block";

    pub(crate) const KEY: &str = "0x000102030405060708090a0b0c0d0e0f10111213";

    /// Both associations of that gateway, or of its peer: what differs is which is used out.
    pub(crate) fn associations() -> String {
        let sa = |src, dst, spi| {
            format!("SA src {src} dst {dst} spi {spi} reqid 1 mode tunnel aead aes-gcm {KEY} 128")
        };
        format!("{}, {}", sa("192.0.2.1", "192.0.2.2", "0x100"), sa("192.0.2.2", "192.0.2.1", "0x200"))
    }

    /// A UDP packet of `len` bytes.
    pub(crate) fn packet(src: [u8; 4], dst: [u8; 4], len: usize) -> Vec<u8> {
        let mut bytes = vec![0x5a; len];
        let repr = wire::ipv4::Repr {
            src: src.into(),
            dst: dst.into(),
            protocol: wire::Protocol::UDP,
            payload_len: (len - 20) as u16,
            ttl: 64,
            tos: 0,
            id: 7,
            fragment: 0,
        };
        repr.emit(&mut bytes).unwrap();
        bytes[20..28].copy_from_slice(&[0, 9, 0, 53, ((len - 20) >> 8) as u8, (len - 20) as u8, 0, 0]);
        bytes
    }

    #[test]
    fn handlers_change_the_databases() {
        let mut run = Rig::text(&format!("d :: IPsecDatabase({}, {POLICIES});", associations())).run();
        assert_eq!((run.read("d.count").as_str(), run.read("d.npolicies").as_str()), ("2", "4"));
        assert!(run.read("d.sas").contains("spi 0x00000100") && !run.read("d.sas").contains(KEY));
        assert!(run.read("d.export").contains(KEY) && !run.read("d.config").contains(KEY));
        run.write("d.delete_sa", "dst 192.0.2.2 spi 0x100").unwrap();
        assert!(run.write("d.delete_sa", "dst 192.0.2.2 spi 0x100").is_err());
        let other = format!("src 192.0.2.1 dst 192.0.2.2 spi 0x101 aead aes-gcm {KEY} 128");
        run.write("d.add_sa", &other).unwrap();
        assert!(run.write("d.add_sa", &other).is_err());
        run.write("d.update_sa", &other).unwrap();
        run.write("d.adjust_sa", &format!("{other} limit time-hard 60")).unwrap();
        assert!(run.read("d.sas").contains("limit time-hard 60"));
        assert!(run.write("d.adjust_sa", &other.replace("0x101", "0x102")).is_err(), "it is not there");
        let spi = run.read_with("d.reserve", "dst 192.0.2.1 min 0x200 max 0x201");
        assert_eq!(spi, "0x00000201", "the other one is in use");
        run.write("d.delete_sa", "dst 192.0.2.1 spi 0x201").unwrap();
        assert!(run.write("d.delete_sa", "dst 192.0.2.1 spi 0x201").is_err(), "it was given back");
        run.write("d.delete_policy", "dir in src 10.66.0.0/16").unwrap();
        run.write("d.path_mtu", "dst 192.0.2.2 spi 0x101 1400").unwrap();
        assert_eq!((run.read("d.count").as_str(), run.read("d.npolicies").as_str()), ("2", "3"));
        run.write("d.flush_sas", "").unwrap();
        run.write("d.flush_policies", "").unwrap();
        assert_eq!((run.read("d.sas").as_str(), run.read("d.policies").as_str()), ("", ""));
    }

    /// A packet finds no association, and its flow wants one.
    #[test]
    fn each_reader_hears_of_all_events() {
        let text = format!("d :: IPsecDatabase({POLICIES}); i :: TestIn -> IPsecEncrypt(d) -> o :: TestOut;");
        let run = Rig::text(&text).inputs(&[&packet([10, 1, 0, 1], [10, 2, 0, 1], 60)]);
        let mut run = run.run();
        let asked = "acquire src 10.1.0.1 dst 10.2.0.1 proto udp sport 9 dport 53 policy ";
        let first = run.read_with("d.events", "0 0");
        assert!(first.starts_with(asked) && first.ends_with("\nnext 1\n"), "{first}");
        let taken = run.read("d.take_events");
        assert_eq!(taken + "next 1\n", first);
        assert_eq!((run.read("d.take_events").as_str(), run.read("d.lost_events").as_str()), ("", "0"));
        assert_eq!(run.read_with("d.events", "0 0"), first, "it is still there");
        assert_eq!(
            (run.read("d.events").as_str(), run.read_with("d.events", "0 1").as_str()),
            ("next 1\n", "next 1\n")
        );
    }

    #[test]
    fn mistakes_are_found_before_anything_runs_and_keys_are_not_shown() {
        let errors = |args: &str| Rig::text(&format!("d :: IPsecDatabase({args});")).errors().join("\n");
        let why = errors(&format!("SA src 1.1.1.1 dst 1.1.1.2 spi 7 aead aes-gcm {KEY} 128"));
        assert!(why.contains("SPI 0x7 is reserved") && !why.contains(KEY), "{why}");
        let why = errors(&format!("SA src 1.1.1.1 dst 1.1.1.2 spi 700 aead aes-gcmx {KEY} 128"));
        assert!(why.contains("unknown combined algorithm 'aes-gcmx'") && !why.contains(KEY), "{why}");
        let both = format!("{0}, {0}", associations());
        assert!(errors(&both).contains("there is an association with SPI 0x100"));
        assert!(errors("POLICY dir out src 10.0.0.0/8 dst ::/0").contains("two families"));
    }

    #[test]
    fn a_swap_keeps_what_both_configurations_have_and_what_came_by_hand() {
        let config = |more: &str| format!("d :: IPsecDatabase({}{more});", associations());
        let mut run = Rig::text(&config("")).run();
        run.write("d.add_sa", &format!("src 1.1.1.1 dst 1.1.1.2 spi 0x300 aead aes-gcm {KEY} 128")).unwrap();
        run.swap(&config(", POLICY dir out dst 10.9.0.0/16")).unwrap();
        assert_eq!((run.read("d.count").as_str(), run.read("d.npolicies").as_str()), ("3", "1"));
        run.swap("d :: IPsecDatabase();").unwrap();
        assert_eq!((run.read("d.count").as_str(), run.read("d.npolicies").as_str()), ("1", "0"));
        assert!(run.read("d.sas").contains("spi 0x00000300"));
    }
}
