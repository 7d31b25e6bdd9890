// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to databases are carried out and answered as the kernel does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ipsec::text::{parse_association, parse_policy};
use ipsec::{AssociationConfig, Database, Id, Policy};
use sync::rcu::{Domain, Limits};
use xfrm::layout::{self, AeventId, Sa, SaId, Spi, SpiInfo, attribute, message};
use xfrm::netlink::{Attributes, Builder, Messages, control, flag};
use xfrm::{
    Carried, Client, Found, Kernel as _, Local, answer, config_of, policy_of, put_association, put_policy,
};

const GCM: &str = "src 192.0.2.1 dst 198.51.100.1 proto esp spi 0x100 reqid 7 mode tunnel replay-window 1024 \
                   aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128";
const ME: Client = Client { port: 4242, groups: 0, wants_words: false, wants_heads: false };
/// A request with an acknowledgement.
const CHANGE: u16 = flag::REQUEST | flag::ACK;
const SHOW: u16 = flag::REQUEST;

struct Bench {
    database: Arc<Database>,
    kernel: Local,
    now_ns: Arc<AtomicU64>,
    client: Client,
}

/// An answer's kind and body.
type Reply = (u16, Vec<u8>);

impl Bench {
    fn new() -> Bench {
        let database = Arc::new(Database::new(&Domain::new(Limits::default()), 1));
        let now_ns = Arc::new(AtomicU64::new(1_000_000_000));
        let clock = now_ns.clone();
        let kernel = Local::new(database.clone(), move || clock.load(Ordering::Relaxed));
        Bench { database, kernel, now_ns, client: ME }
    }

    fn ask(&mut self, request: Builder) -> Vec<Reply> {
        let bytes = request.finish();
        let request = Messages(&bytes).next().unwrap();
        let answer = answer(&mut self.kernel, &self.client, &request);
        let datagrams: Vec<_> =
            answer.datagrams.into_iter().chain(answer.dump.into_iter().flatten()).collect();
        let messages = datagrams.iter().flat_map(|datagram| Messages(datagram));
        let reply = |message: xfrm::netlink::Message<'_>| {
            assert_eq!((message.sequence, message.port), (9, 4242));
            (message.kind, message.body.to_vec())
        };
        messages.map(reply).collect()
    }

    /// The number in an acknowledgement.
    fn errno(&mut self, request: Builder) -> i32 {
        let [(control::ERROR, body)] = &self.ask(request)[..] else { panic!("an acknowledgement") };
        -i32::from_ne_bytes(*body.first_chunk().unwrap())
    }

    fn one(&mut self, request: Builder) -> Reply {
        let mut all = self.ask(request);
        assert_eq!(all.len(), 1);
        all.remove(0)
    }
}

fn request(kind: u16, flags: u16, body: &[u8]) -> Builder {
    let mut request = Builder::new(kind, flags, 9, 1);
    request.put(body);
    request
}

fn sa_request(kind: u16, config: &AssociationConfig) -> Builder {
    let mut request = Builder::new(kind, CHANGE, 9, 1);
    put_association(&mut request, &Found { what: config.clone(), carried: Carried::default() });
    request
}

fn policy_request(kind: u16, policy: &Policy) -> Builder {
    let mut request = Builder::new(kind, CHANGE, 9, 1);
    put_policy(&mut request, &Found { what: policy.clone(), carried: Carried::default() });
    request
}

fn sa_id(spi: u32, proto: u8) -> [u8; 24] {
    let daddr = std::net::IpAddr::from([198, 51, 100, 1]).into();
    SaId { daddr, spi: Spi(spi), family: layout::family::FOUR, proto }.bytes()
}

fn id() -> Id {
    Id { dst: [198, 51, 100, 1].into(), spi: 0x100 }
}

#[test]
fn an_association_is_added_shown_and_deleted() {
    let mut bench = Bench::new();
    let config = parse_association(GCM).unwrap();
    assert_eq!(bench.errno(sa_request(message::NEWSA, &config)), 0);
    assert_eq!(bench.errno(sa_request(message::NEWSA, &config)), libc::EEXIST);
    bench.database.association(id()).unwrap().lines.passed(0, 1000, 5);
    let (kind, body) = bench.one(request(message::GETSA, SHOW, &sa_id(0x100, 50)));
    let sa = Sa::parse(&body).unwrap();
    assert_eq!((kind, sa.curlft.bytes, sa.curlft.packets), (message::NEWSA, 1000, 1));
    assert!(sa.curlft.add_time > 1_000_000_000, "seconds since 1970");
    assert_eq!(config_of(&sa, Attributes(Sa::rest(&body))).unwrap(), config, "with its key");
    assert_eq!(bench.errno(request(message::DELSA, CHANGE, &sa_id(0x100, 50))), 0);
    assert_eq!(bench.errno(request(message::DELSA, CHANGE, &sa_id(0x100, 50))), libc::ESRCH);
    assert_eq!(bench.errno(request(message::GETSA, SHOW, &sa_id(0x100, 50))), libc::ESRCH);
    assert_eq!(bench.errno(request(message::DELSA, CHANGE, &sa_id(0x100, layout::AH))), libc::ESRCH);
}

#[test]
fn a_number_is_reserved_and_then_used() {
    let mut bench = Bench::new();
    let config = parse_association(GCM).unwrap();
    assert_eq!(bench.errno(sa_request(message::UPDSA, &config)), libc::ESRCH, "charon(8) then adds it");
    let ask = |spi: u32, proto: u8| {
        let id = layout::Id { daddr: config.dst.into(), spi: Spi(0), proto };
        let info = Sa { id, family: layout::family::FOUR, reqid: 7, ..Sa::default() };
        request(message::ALLOCSPI, SHOW, &SpiInfo { info, min: spi, max: spi }.bytes())
    };
    let (kind, body) = bench.one(ask(0x100, 50));
    let sa = Sa::parse(&body).unwrap();
    assert_eq!((kind, sa.id.spi, sa.reqid), (message::NEWSA, Spi(0x100), 7));
    assert_eq!(bench.errno(ask(0x100, 50)), libc::ENOENT, "taken");
    assert_eq!(bench.errno(ask(0x100, layout::AH)), libc::EPROTONOSUPPORT);
    assert_eq!(bench.errno(sa_request(message::UPDSA, &config)), 0);
    assert_eq!(bench.database.association(id()).unwrap().config, config);
    // One that is not used is given back.
    bench.one(ask(0x200, 50));
    assert_eq!(bench.errno(request(message::DELSA, CHANGE, &sa_id(0x200, 50))), 0);
    bench.one(ask(0x200, 50));
    bench.now_ns.fetch_add(166_000_000_000, Ordering::Relaxed);
    assert_eq!(bench.errno(request(message::DELSA, CHANGE, &sa_id(0x200, 50))), libc::ESRCH, "expired");
}

/// As `xfrm_state_update` has it: keys, numbers and selector stay, and UDP neither comes nor goes.
#[test]
fn an_update_changes_ports_and_limits_only() {
    let mut bench = Bench::new();
    let with = |more: &str| parse_association(&format!("{GCM} {more}")).unwrap();
    let config = with("encap espinudp 4500 4500 0.0.0.0 sel src 10.0.0.0/8 dst 10.2.0.0/16");
    bench.errno(sa_request(message::NEWSA, &config));
    let association = bench.database.association(id()).unwrap();
    association.sa.take_numbers(17).unwrap();
    association.sa.window.accept(40).unwrap();
    let before = association.progress();
    bench.now_ns.fetch_add(9_000_000_000, Ordering::Relaxed);
    let other = GCM.replace("0x0001", "0xffff").replace("reqid 7", "reqid 8");
    let other = format!("{other} encap espinudp 4500 61001 0.0.0.0 limit time-hard 60 flag noecn");
    let other = parse_association(&other).unwrap();
    assert_eq!(bench.errno(sa_request(message::UPDSA, &other)), 0);
    let now = bench.kernel.association(id()).unwrap();
    assert_eq!(
        (now.what.esp.udp, now.what.limits, &now.what.progress),
        (other.esp.udp, other.limits, &before)
    );
    let rest = AssociationConfig { limits: config.limits, progress: Default::default(), ..now.what.clone() };
    let rest = AssociationConfig { esp: esp::Config { udp: config.esp.udp, ..rest.esp }, ..rest };
    assert_eq!(rest, config);
    assert_eq!(bench.kernel.association(id()).unwrap().carried.made, now.carried.made, "nor is it younger");
    assert_eq!(bench.errno(sa_request(message::UPDSA, &with("limit time-hard 9"))), libc::EINVAL, "UDP goes");
    assert_eq!(bench.kernel.association(id()).unwrap().what, now.what);
    bench.kernel.remove(id()).unwrap();
    bench.errno(sa_request(message::NEWSA, &with("")));
    assert_eq!(bench.errno(sa_request(message::UPDSA, &config)), libc::EINVAL, "UDP comes");
    let refused = with("encap espinudp 1 2 0.0.0.0").esp.spec.clone();
    assert!(bench.database.association(id()).unwrap().config.esp.spec == refused, "and it is the one before");
}

#[test]
fn policies_are_added_shown_and_deleted() {
    let mut bench = Bench::new();
    let policy = parse_policy(
        "src 10.1.0.0/16 dst 10.2.0.0/16 dir out priority 5 tmpl src 192.0.2.1 dst 198.51.100.1 reqid 7 mode tunnel",
    );
    let mut policy = policy.unwrap();
    assert_eq!(bench.errno(policy_request(message::NEWPOLICY, &policy)), 0);
    assert_eq!(bench.errno(policy_request(message::NEWPOLICY, &policy)), libc::EEXIST);
    policy.priority = 4;
    assert_eq!(bench.errno(policy_request(message::UPDPOLICY, &policy)), 0);
    let whole = {
        let mut r = policy_request(0, &policy);
        r.put(&[]);
        r.finish()
    };
    let sel = layout::PolicyInfo::parse(&whole[16..]).unwrap().sel;
    let by_selector = layout::PolicyId { sel, index: 0, dir: 1 };
    let (kind, body) = bench.one(request(message::GETPOLICY, SHOW, &by_selector.bytes()));
    let info = layout::PolicyInfo::parse(&body).unwrap();
    let mut shown = policy_of(&info, Attributes(layout::PolicyInfo::rest(&body))).unwrap();
    assert_eq!((kind, info.curlft.use_time), (message::NEWPOLICY, 0));
    assert_eq!(std::mem::take(&mut shown.index) & 7, 1, "the kernel's index says the direction");
    assert_eq!(shown, policy);
    // Used since.
    bench.database.policies()[0].note_use(5);
    let (_, body) = bench.one(request(message::GETPOLICY, SHOW, &by_selector.bytes()));
    assert!(layout::PolicyInfo::parse(&body).unwrap().curlft.use_time > 0);
    let by_index = layout::PolicyId { index: info.index, dir: 1, ..Default::default() };
    assert_eq!(bench.errno(request(message::DELPOLICY, CHANGE, &by_index.bytes())), 0);
    assert_eq!(bench.errno(request(message::DELPOLICY, CHANGE, &by_selector.bytes())), libc::ENOENT);
    assert_eq!(bench.errno(request(message::GETPOLICY, SHOW, &by_index.bytes())), libc::ENOENT);
    policy.priority = 3;
    bench.errno(policy_request(message::UPDPOLICY, &policy));
    assert_eq!(bench.errno(request(message::FLUSHPOLICY, CHANGE, &[])), 0);
    assert!(bench.database.policies().is_empty());
}

#[test]
fn a_dump_shows_all_in_datagrams_of_several() {
    let mut bench = Bench::new();
    for spi in 0x100..0x200u32 {
        let config = parse_association(&GCM.replace("0x100", &spi.to_string())).unwrap();
        bench.kernel.add(config).unwrap();
    }
    let dump = |kind: u16| request(kind, SHOW | flag::DUMP, &[]);
    let all = bench.ask(dump(message::GETSA));
    assert_eq!(all.len(), 257);
    assert!(all[..256].iter().all(|(kind, _)| *kind == message::NEWSA));
    assert_eq!(all[256].0, control::DONE);
    assert_eq!(bench.ask(dump(message::GETPOLICY)).len(), 1, "none, and the end");
    let (kind, body) = bench.one(request(message::GETSADINFO, SHOW, &[0; 4]));
    assert_eq!((kind, Attributes(&body[4..]).number(attribute::SAD_CNT)), (message::NEWSADINFO, Some(256)));
    assert_eq!(bench.errno(request(message::FLUSHSA, CHANGE, &[layout::AH, 0, 0, 0])), 0);
    assert_eq!(bench.database.associations().len(), 256, "no AH");
    assert_eq!(bench.errno(request(message::FLUSHSA, CHANGE, &[layout::ESP, 0, 0, 0])), 0);
    assert!(bench.database.associations().is_empty());
}

/// As charon(8) asks before it moves an association to other addresses.
#[test]
fn progress_is_shown() {
    let mut bench = Bench::new();
    let config = format!("{GCM} progress 17 12 0x{}", "00".repeat(128));
    bench.kernel.add(parse_association(&config).unwrap()).unwrap();
    let sa_id = SaId::parse(&sa_id(0x100, 50)).unwrap();
    let body = AeventId { sa_id, flags: 2, ..Default::default() };
    let (kind, body) = bench.one(request(message::GETAE, SHOW, &body.bytes()));
    let attributes = Attributes(AeventId::rest(&body));
    let esn = layout::ReplayEsn::parse(attributes.find(attribute::REPLAY_ESN_VAL).unwrap()).unwrap();
    assert_eq!((kind, esn.oseq, esn.seq, esn.replay_window, esn.bmp_len), (message::NEWAE, 17, 12, 1024, 32));
    assert!(attributes.find(attribute::LTIME_VAL).is_some());
    assert_eq!(AeventId::parse(&body).unwrap().reqid, 7);
}

/// As charon(8) adds it under its new addresses, with the life that it had.
#[test]
fn a_moved_association_is_as_old_as_before() {
    let mut bench = Bench::new();
    bench.now_ns.store(100_000_000_000, Ordering::Relaxed);
    let config = parse_association(&format!("{GCM} limit time-hard 60 limit byte-soft 1000")).unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let life =
        |add_time, use_time| layout::LifetimeCurrent { bytes: 900, packets: 9, add_time, use_time }.bytes();
    let mut request = sa_request(message::NEWSA, &config);
    request.attribute(attribute::LTIME_VAL, &life(now - 50, now - 40));
    assert_eq!(bench.errno(request), 0);
    let there = bench.database.association(config.id()).unwrap();
    let (age_s, usage) = ((100_000_000_000 - there.made_ns) / 1_000_000_000, there.lines.usage());
    assert!((50..=80).contains(&age_s) && (usage.bytes, usage.packets) == (900, 9), "{age_s} {usage:?}");
    assert!(there.lines.first_ns().is_some_and(|first| first > there.made_ns));
    assert!(bench.database.count(&there, 0, 100, 100_000_000_000));
    assert_eq!(there.reached(), Some(ipsec::Reached::Soft), "1,000 bytes in all");
    bench.database.tick(110_000_000_000);
    assert!(bench.database.association(config.id()).is_none(), "its 60 s are over");
    // Times that are not said.
    let mut request = sa_request(message::NEWSA, &config);
    request.attribute(attribute::LTIME_VAL, &life(0, 0));
    assert_eq!(bench.errno(request), 0);
    let there = bench.database.association(config.id()).unwrap();
    assert_eq!((there.made_ns, there.lines.first_ns()), (100_000_000_000, None));
}

#[test]
fn thresholds_are_those_that_charon_would_set() {
    let mut bench = Bench::new();
    let (_, body) = bench.one(request(message::GETSPDINFO, SHOW, &[0; 4]));
    let attributes = Attributes(&body[4..]);
    assert_eq!(attributes.find(attribute::SPD_IPV4_HTHRESH), Some(&[32, 32][..]));
    assert_eq!(attributes.find(attribute::SPD_IPV6_HTHRESH), Some(&[128, 128][..]));
    assert_eq!(bench.errno(request(message::NEWSPDINFO, CHANGE, &[0; 4])), 0);
    assert_eq!(bench.one(request(message::GETDEFAULT, SHOW, &[0; 3])).1[..3], [2, 2, 2]);
}

#[test]
fn errors_show_the_request_and_say_why() {
    let mut bench = Bench::new();
    for kind in [message::NEWSA, message::DELSA, message::ALLOCSPI, message::NEWPOLICY, message::GETAE] {
        assert_eq!(bench.errno(request(kind, CHANGE, &[0; 8])), libc::EINVAL, "{kind:#x} is short");
    }
    for kind in [message::MIGRATE, message::NEWAE, message::SETDEFAULT] {
        assert_eq!(bench.errno(request(kind, CHANGE, &[0; 64])), libc::EOPNOTSUPP, "{kind:#x}");
    }
    assert_eq!(bench.errno(request(0x40, CHANGE, &[])), libc::EINVAL);
    assert_eq!(bench.ask(request(message::FLUSHPOLICY, 0, &[])), [], "no request");
    let ask = || request(message::GETSA, SHOW, &sa_id(0x100, 50));
    let (_, body) = bench.one(ask());
    assert_eq!(body[4..], ask().finish()[..], "the request");
    bench.client = Client { wants_words: true, wants_heads: true, ..ME };
    let (_, body) = bench.one(ask());
    let words = Attributes(&body[20..]).find(1).unwrap();
    assert!(words.starts_with(b"there is no association with SPI 0x100 to 198.51.100.1: "));
    assert!(words.ends_with(b"\0"));
}
