// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests and their answers, as `net/xfrm/xfrm_user.c` has them.

use ipsec::{Direction, ErrorKind, Policy, PolicyKey};

use crate::association::{
    check_protocol, config_of, id_of, life_of, put_association, put_current, put_window,
};
use crate::kernel::{Kernel, Refusal, errno_of};
use crate::layout::{self, LifetimeConfig, NO_LIMIT, Spi, attribute, message};
use crate::local::wall;
use crate::netlink::{Attributes, Builder, Bytes, HEADER_LEN, Message, append, control, flag};
use crate::policy::{Which, policy_of, put_policy, which_of};

/// How long a number stays reserved, in seconds, as Linux says it.
const RESERVED_S: u64 = 165;
/// Bytes of a dump's messages that go in one datagram, if they are not one message.
const DATAGRAM_LEN: usize = 4096;
/// Parts of replay state that an association's event may have (`XFRM_AE_...`).
const AE_RVAL: u32 = 2;
const AE_LVAL: u32 = 4;
/// Packets that meet no policy pass (`XFRM_USERPOLICY_ACCEPT`).
const ACCEPT: u8 = 2;

/// What a client has said about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// Its port, which answers name.
    pub port: u32,
    /// Groups whose events it gets: group n is bit n - 1.
    pub groups: u32,
    /// Whether errors say why in words (`NETLINK_EXT_ACK`).
    pub wants_words: bool,
    /// Whether errors show the request's header only (`NETLINK_CAP_ACK`).
    pub wants_heads: bool,
}

/// What is sent back.
#[derive(Default)]
pub struct Answer {
    /// Datagrams, in order.
    pub datagrams: Vec<Bytes>,
    /// More of them, made one by one as the client takes them.
    pub dump: Option<Box<dyn Iterator<Item = Bytes> + Send>>,
}

/// What a request leads to.
enum Done {
    /// An acknowledgement, if that is wanted.
    Changed,
    /// A message.
    Shown(Builder),
    /// Messages.
    All(Box<dyn Iterator<Item = Bytes> + Send>),
}

/// Carries out a request.
pub fn answer(kernel: &mut dyn Kernel, client: &Client, request: &Message<'_>) -> Answer {
    let is_request = request.flags & flag::REQUEST != 0 && request.kind >= message::NEWSA;
    let done = if is_request { carry_out(kernel, client, request) } else { Ok(Done::Changed) };
    let mut answer = Answer::default();
    let outcome = match done {
        Ok(Done::All(messages)) => {
            answer.dump = Some(Box::new(Dump { messages, next: None, end: Some(end(client, request)) }));
            return answer;
        }
        Ok(Done::Shown(message)) => {
            answer.datagrams.push(message.finish());
            Ok(())
        }
        Ok(Done::Changed) => Ok(()),
        Err(refusal) => Err(refusal),
    };
    if outcome.is_err() || request.flags & flag::ACK != 0 {
        answer.datagrams.push(acknowledgement(client, request, outcome.err()));
    }
    answer
}

/// Whether a request asks for a list.
pub(crate) fn is_list(request: &Message<'_>) -> bool {
    request.flags & flag::DUMP == flag::DUMP && matches!(request.kind, message::GETSA | message::GETPOLICY)
}

/// The answer to a request that is not carried out.
pub(crate) fn refused(client: &Client, request: &Message<'_>, why: Refusal) -> Bytes {
    acknowledgement(client, request, Some(why))
}

/// `struct nlmsgerr`, for good or bad (`netlink_ack` in `net/netlink/af_netlink.c`).
fn acknowledgement(client: &Client, request: &Message<'_>, refusal: Option<Refusal>) -> Bytes {
    let is_whole = refusal.is_some() && !client.wants_heads;
    let words = refusal.as_ref().filter(|_| client.wants_words).map(|refusal| refusal.why.as_bytes());
    let flags = if is_whole { 0 } else { flag::CAPPED } | if words.is_some() { flag::ACK_TLVS } else { 0 };
    let mut message = Builder::new(control::ERROR, flags, request.sequence, client.port);
    message.put(&refusal.as_ref().map_or(0, |refusal| -refusal.errno).to_ne_bytes());
    message.put(if is_whole { request.whole } else { &request.whole[..HEADER_LEN] });
    if let Some(words) = words {
        // NLMSGERR_ATTR_MSG, a C string.
        message.attribute_of(1, &[words, &[0]]);
    }
    message.finish()
}

fn end(client: &Client, request: &Message<'_>) -> Bytes {
    let mut message = Builder::new(control::DONE, flag::MULTI, request.sequence, client.port);
    message.put(&[0; 4]);
    message.finish()
}

/// Messages, as many in a datagram as have room.
struct Dump {
    messages: Box<dyn Iterator<Item = Bytes> + Send>,
    next: Option<Bytes>,
    end: Option<Bytes>,
}

impl Iterator for Dump {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut datagram = self.next.take().unwrap_or_default();
        while let Some(message) = self.messages.next().or_else(|| self.end.take()) {
            if !datagram.is_empty() && datagram.len() + message.len() > DATAGRAM_LEN {
                self.next = Some(message);
                break;
            }
            append(&mut datagram, &message);
        }
        Some(datagram).filter(|datagram| !datagram.is_empty())
    }
}

fn short() -> Refusal {
    Refusal::new(libc::EINVAL, "the request is shorter than its structure")
}

fn carry_out(kernel: &mut dyn Kernel, client: &Client, request: &Message<'_>) -> Result<Done, Refusal> {
    let is_dump = is_list(request);
    let reply = |kind: u16| Builder::new(kind, 0, request.sequence, client.port);
    let body = request.body;
    match request.kind {
        message::GETSA if is_dump => return dump_associations(kernel, client, request),
        message::GETPOLICY if is_dump => return dump_policies(kernel, client, request),
        message::NEWSA | message::UPDSA => set_association(kernel, body, request.kind == message::UPDSA)?,
        message::DELSA => kernel.remove(meant(body)?)?,
        message::GETSA => {
            let found = kernel.association(meant(body)?)?;
            let mut message = reply(message::NEWSA);
            put_association(&mut message, &found);
            return Ok(Done::Shown(message));
        }
        message::ALLOCSPI => return Ok(Done::Shown(reserve(kernel, body, reply(message::NEWSA))?)),
        message::GETAE => return Ok(Done::Shown(progress(kernel, body, reply(message::NEWAE))?)),
        message::FLUSHSA => {
            let flush = layout::SaFlush::parse(body).ok_or_else(short)?;
            // There are none of other protocols.
            if matches!(flush.proto, 0 | layout::ESP | layout::ANY_PROTOCOL) {
                kernel.flush()?;
            }
        }
        message::NEWPOLICY | message::UPDPOLICY => {
            let info = layout::PolicyInfo::parse(body).ok_or_else(short)?;
            let policy = policy_of(&info, Attributes(layout::PolicyInfo::rest(body)))?;
            kernel.set_policy(policy, request.kind == message::UPDPOLICY)?;
        }
        message::DELPOLICY => {
            let key = meant_policy(kernel, body)?;
            kernel.remove_policy(&key)?;
        }
        message::GETPOLICY => {
            let key = meant_policy(kernel, body)?;
            let mut message = reply(message::NEWPOLICY);
            put_policy(&mut message, &kernel.policy(&key)?);
            return Ok(Done::Shown(message));
        }
        message::FLUSHPOLICY => kernel.flush_policies()?,
        message::GETSADINFO => {
            return Ok(Done::Shown(count_associations(kernel, body, reply(message::NEWSADINFO))?));
        }
        message::GETSPDINFO => {
            return Ok(Done::Shown(count_policies(kernel, body, reply(message::NEWSPDINFO))?));
        }
        // Thresholds of a hash table that is not there.
        message::NEWSPDINFO => {}
        message::GETDEFAULT => {
            let mut message = reply(message::GETDEFAULT);
            message.put(&layout::PolicyDefault { r#in: ACCEPT, fwd: ACCEPT, out: ACCEPT }.bytes());
            return Ok(Done::Shown(message));
        }
        message::MIGRATE => {
            let why = "associations are not migrated: delete one, and add it with its other addresses and XFRMA_REPLAY_ESN_VAL";
            return Err(Refusal::new(libc::EOPNOTSUPP, why));
        }
        message::NEWAE => {
            let why = "sequence numbers and windows of associations in use are not changed: add one with XFRMA_REPLAY_ESN_VAL";
            return Err(Refusal::new(libc::EOPNOTSUPP, why));
        }
        message::SETDEFAULT | message::REPORT => {
            return Err(Refusal::new(libc::EOPNOTSUPP, "that request is not supported"));
        }
        _ => return Err(Refusal::new(libc::EINVAL, "that is no request")),
    }
    Ok(Done::Changed)
}

fn meant(body: &[u8]) -> Result<ipsec::Id, Refusal> {
    let id = layout::SaId::parse(body).ok_or_else(short)?;
    if matches!(id.proto, layout::AH | layout::IPCOMP) {
        return Err(Refusal::new(libc::ESRCH, "there are no associations of that protocol"));
    }
    check_protocol(id.proto)?;
    id_of(&id)
}

fn set_association(kernel: &mut dyn Kernel, body: &[u8], is_update: bool) -> Result<(), Refusal> {
    let sa = layout::Sa::parse(body).ok_or_else(short)?;
    let attributes = Attributes(layout::Sa::rest(body));
    let mut config = config_of(&sa, attributes)?;
    config.progress.life = life_of(attributes, wall());
    if is_update { kernel.update(config) } else { kernel.add(config) }
}

fn reserve(kernel: &mut dyn Kernel, body: &[u8], mut message: Builder) -> Result<Builder, Refusal> {
    let request = layout::SpiInfo::parse(body).ok_or_else(short)?;
    let info = request.info;
    check_protocol(info.id.proto)?;
    let dst = info.id.daddr.of_family(info.family);
    let dst = dst.ok_or_else(|| Refusal::new(libc::EINVAL, "the family must be that of IPv4 or IPv6"))?;
    if request.min > request.max {
        return Err(Refusal::new(libc::EINVAL, "the lowest number is above the highest"));
    }
    let spi = kernel.reserve(dst, request.min..=request.max)?;
    let lft = LifetimeConfig {
        soft_byte_limit: NO_LIMIT,
        hard_byte_limit: NO_LIMIT,
        soft_packet_limit: NO_LIMIT,
        hard_packet_limit: NO_LIMIT,
        hard_add_expires_seconds: RESERVED_S,
        ..LifetimeConfig::default()
    };
    let id = layout::Id { spi: Spi(spi), ..info.id };
    let (curlft, stats) = Default::default();
    message.put(&layout::Sa { id, lft, curlft, stats, ..info }.bytes());
    Ok(message)
}

fn progress(kernel: &mut dyn Kernel, body: &[u8], mut message: Builder) -> Result<Builder, Refusal> {
    let request = layout::AeventId::parse(body).ok_or_else(short)?;
    check_protocol(request.sa_id.proto)?;
    let found = kernel.association(id_of(&request.sa_id)?)?;
    let shown = layout::AeventId {
        saddr: found.what.src.into(),
        flags: AE_RVAL | AE_LVAL,
        reqid: found.what.reqid,
        ..request
    };
    message.put(&shown.bytes());
    put_window(&mut message, &found.what);
    message.attribute(attribute::LTIME_VAL, &put_current(&found.carried).bytes());
    Ok(message)
}

fn meant_policy(kernel: &mut dyn Kernel, body: &[u8]) -> Result<PolicyKey, Refusal> {
    let id = layout::PolicyId::parse(body).ok_or_else(short)?;
    match which_of(&id, Attributes(layout::PolicyId::rest(body)))? {
        Which::Key(key) => Ok(key),
        Which::Index(direction, index) => {
            let is_it = |policy: &Policy| policy.index == index && policy.direction == direction;
            let found = kernel.policies()?.find(|found| is_it(&found.what));
            found.map(|found| found.what.key()).ok_or_else(|| {
                let direction = direction.name();
                let why = format!("there is no policy 'index {index} dir {direction}': list the policies, and name one of these");
                Refusal::new(errno_of(ErrorKind::NoPolicy), why)
            })
        }
    }
}

fn dump_associations(
    kernel: &mut dyn Kernel,
    client: &Client,
    request: &Message<'_>,
) -> Result<Done, Refusal> {
    let protocol = Attributes(request.body).find(attribute::PROTO).and_then(|value| value.first().copied());
    if protocol.is_some_and(|protocol| !matches!(protocol, 0 | layout::ESP | layout::ANY_PROTOCOL)) {
        return Ok(Done::All(Box::new(std::iter::empty())));
    }
    let (port, sequence) = (client.port, request.sequence);
    Ok(Done::All(Box::new(kernel.associations()?.map(move |found| {
        let mut message = Builder::new(message::NEWSA, flag::MULTI, sequence, port);
        put_association(&mut message, &found);
        message.finish()
    }))))
}

fn dump_policies(kernel: &mut dyn Kernel, client: &Client, request: &Message<'_>) -> Result<Done, Refusal> {
    let (port, sequence) = (client.port, request.sequence);
    Ok(Done::All(Box::new(kernel.policies()?.map(move |found| {
        let mut message = Builder::new(message::NEWPOLICY, flag::MULTI, sequence, port);
        put_policy(&mut message, &found);
        message.finish()
    }))))
}

/// The flags of a request for counts, which come back.
fn count_flags(body: &[u8]) -> Result<[u8; 4], Refusal> {
    body.first_chunk().copied().ok_or_else(short)
}

fn count_associations(
    kernel: &mut dyn Kernel,
    body: &[u8],
    mut message: Builder,
) -> Result<Builder, Refusal> {
    message.put(&count_flags(body)?);
    let count = kernel.count()? as u32;
    message.attribute(attribute::SAD_CNT, &count.to_ne_bytes());
    message.attribute(attribute::SAD_HINFO, &layout::SadHashInfo::default().bytes());
    Ok(message)
}

fn count_policies(kernel: &mut dyn Kernel, body: &[u8], mut message: Builder) -> Result<Builder, Refusal> {
    message.put(&count_flags(body)?);
    let mut info = layout::SpdInfo::default();
    for found in kernel.policies()? {
        match found.what.direction {
            Direction::In => info.incnt += 1,
            Direction::Out => info.outcnt += 1,
            Direction::Forward => info.fwdcnt += 1,
        }
    }
    message.attribute(attribute::SPD_INFO, &info.bytes());
    message.attribute(attribute::SPD_HINFO, &layout::SpdHashInfo::default().bytes());
    // All prefix lengths are in one kind of table, which charon(8) takes for a threshold that need not be changed.
    message.attribute(attribute::SPD_IPV4_HTHRESH, &layout::SpdThreshold { lbits: 32, rbits: 32 }.bytes());
    message.attribute(attribute::SPD_IPV6_HTHRESH, &layout::SpdThreshold { lbits: 128, rbits: 128 }.bytes());
    Ok(message)
}
