// SPDX-License-Identifier: MIT OR Apache-2.0
//! Associations as `ip xfrm state` has them.
//!
//! Beyond its words: `df copy|set|clear`, `ttl N` and `tfcpad N` for outer headers, `dummies N` for packets that hide how much is sent, `keepalive SECONDS` for address translators on the way, and `progress` and `carried` for one that goes on where another was.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::num::NonZero;

use esp::algorithm::{Aead, Auth, Cipher};
use esp::replay;
use esp::sa::{DontFragment, FILL_MOST, Rules, UdpPorts};
use esp::{Config, Mode, Spec};

use super::Keys;
use super::words::{Mistake, SelectorWords, Words, bytes, mistake, put_hex, safe, show_selector};
use crate::association::{AssociationConfig, Progress};
use crate::lifetime::{Life, Limits, Usage};
use crate::selector::Selector;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;
/// Bits of a check value where a text says no number, as Linux' `auth` has it.
const AUTH_BITS: usize = 96;

/// Room for all words of an association, with the longest keys, but for the window's bits.
const WORDS_LEN: usize = 2048;

/// What has been read so far.
#[derive(Default)]
struct Read {
    src: Option<IpAddr>,
    dst: Option<IpAddr>,
    spi: Option<u32>,
    reqid: u32,
    is_transport: bool,
    aead: Option<Spec>,
    cipher: Option<(Cipher, Vec<u8>)>,
    auth: Option<(Auth, Vec<u8>, usize)>,
    udp: Option<UdpPorts>,
    window: Option<u32>,
    is_extended: bool,
    rules: Rules,
    selector: Option<Selector>,
    limits: Limits,
    progress: Progress,
}

/// Reads an association.
///
/// # Errors
/// What is wrong, and what is expected. No message shows a key.
pub fn parse_association(text: &str) -> Result<AssociationConfig, Mistake> {
    let mut words = Words::new(text);
    let mut read = Read::default();
    while let Some(keyword) = words.next() {
        read.take(keyword, &mut words)?;
    }
    read.finish()
}

impl Read {
    fn take(&mut self, keyword: &str, words: &mut Words<'_>) -> Result<(), Mistake> {
        match keyword {
            "src" => self.src = Some(words.addr(keyword)?),
            "dst" => self.dst = Some(words.addr(keyword)?),
            "proto" => words.one_of(keyword, &[("esp", ())])?,
            "spi" => self.spi = Some(words.number(keyword)?),
            "reqid" => self.reqid = words.number(keyword)?,
            "mode" => self.is_transport = words.one_of(keyword, &[("tunnel", false), ("transport", true)])?,
            "aead" => self.aead = Some(aead(words)?),
            "enc" => {
                let cipher = words.after(keyword, "an algorithm, as cbc(aes)")?.parse().map_err(unknown)?;
                let key = if cipher == Cipher::Null { null_key(words)? } else { words.key(keyword)? };
                self.cipher = Some((cipher, key));
            }
            "auth" => {
                let auth = words.after(keyword, "an algorithm, as hmac(sha256)")?.parse().map_err(unknown)?;
                self.auth = Some((auth, words.key(keyword)?, AUTH_BITS / 8));
            }
            "auth-trunc" => {
                let auth = words.after(keyword, "an algorithm, as hmac(sha256)")?.parse().map_err(unknown)?;
                self.auth = Some((auth, words.key(keyword)?, icv_len(keyword, words)?));
            }
            "encap" => self.udp = Some(encap(words)?),
            "replay-window" => self.window = Some(words.number(keyword)?),
            "flag" => self.flag(words)?,
            "extra-flag" => {
                words.one_of(keyword, &[("dont-encap-dscp", ())])?;
                self.rules.copy_dscp = false;
            }
            "df" => {
                let choice = [
                    ("copy", DontFragment::Copy),
                    ("set", DontFragment::Set),
                    ("clear", DontFragment::Clear),
                ];
                self.rules.dont_fragment = words.one_of(keyword, &choice)?;
            }
            "ttl" => self.rules.ttl = words.read::<NonZero<u8>>(keyword, "a number from 1 to 255")?.get(),
            "tfcpad" => self.rules.pad_to = words.read(keyword, "a length in bytes, up to 65535")?,
            "dummies" => self.rules.fill_to = fill_to(words)?,
            "keepalive" => {
                self.rules.keep_alive_s = words.read(keyword, "seconds up to 65535, or 0 for none")?;
            }
            "sel" => self.selector = Some(selector(words)?),
            "limit" => self.limit(words)?,
            "progress" => self.progress = Progress { life: self.progress.life, ..progress(words)? },
            "carried" => self.progress.life = life(words)?,
            "mark" | "output-mark" | "if_id" | "offload" | "coa" | "ctx" | "comp" | "auth-comp" => {
                return mistake(format!("'{keyword}' is not supported"));
            }
            _ => {
                return mistake(format!(
                    "unknown word '{}'; known are src, dst, proto, spi, reqid, mode, aead, enc, auth, auth-trunc, encap, \
                     replay-window, flag, extra-flag, df, ttl, tfcpad, dummies, keepalive, sel, limit, progress, carried",
                    safe(keyword)
                ));
            }
        }
        Ok(())
    }

    /// Flags may follow each other, as `ip xfrm state` prints them.
    fn flag(&mut self, words: &mut Words<'_>) -> Result<(), Mistake> {
        let known =
            [("noecn", 0), ("decap-dscp", 1), ("nopmtudisc", 2), ("esn", 3), ("af-unspec", 4), ("align4", 4)];
        loop {
            match words.one_of("flag", &known)? {
                0 => self.rules.ecn = false,
                1 => self.rules.decap_dscp = true,
                2 => self.rules.dont_fragment = DontFragment::Clear,
                3 => self.is_extended = true,
                _ => {}
            }
            if !words.peek().is_some_and(|next| known.iter().any(|(name, _)| *name == next)) {
                return Ok(());
            }
        }
    }

    fn limit(&mut self, words: &mut Words<'_>) -> Result<(), Mistake> {
        let limits = &mut self.limits;
        let [bytes, packets, age, usage] =
            [&mut limits.bytes, &mut limits.packets, &mut limits.age_ns, &mut limits.use_ns];
        let word = words
            .after("limit", "byte-soft, byte-hard, packet-soft, packet-hard, time-soft, ... and a number")?;
        let (name, kind) = match word.rsplit_once('-') {
            Some((name, "soft")) => (name, 0),
            Some((name, "hard")) => (name, 1),
            _ => {
                let word = safe(word);
                return mistake(format!("'limit {word}': expected a word that ends with -soft or -hard"));
            }
        };
        let (list, unit) = match name {
            "byte" => (bytes, 1),
            "packet" => (packets, 1),
            "time" => (age, SECOND),
            "time-use" => (usage, SECOND),
            _ => {
                return mistake(format!(
                    "'limit {}': expected byte, packet, time or time-use before -soft or -hard",
                    safe(word)
                ));
            }
        };
        let count: u64 = words.read(word, "a number")?;
        // As ip xfrm has it, 0 means no limit. The longest time is whole seconds, too, so that it is written as it was read.
        list[kind] = (count > 0).then(|| count.min(u64::MAX / unit) * unit);
        Ok(())
    }

    fn finish(self) -> Result<AssociationConfig, Mistake> {
        let need = |what: &str| Mistake(format!("an association needs '{what}'"));
        let (src, dst) =
            (self.src.ok_or_else(|| need("src ADDRESS"))?, self.dst.ok_or_else(|| need("dst ADDRESS"))?);
        let spi = self.spi.ok_or_else(|| need("spi NUMBER"))?;
        let spec = match (self.aead, self.cipher, self.auth) {
            (Some(spec), None, None) => spec,
            (None, cipher, Some((auth, auth_key, icv_len))) => {
                let (cipher, key) = cipher.unwrap_or((Cipher::Null, Vec::new()));
                Spec::Separate { cipher, key, auth, auth_key, icv_len }
            }
            (None, Some(_), None) => {
                return mistake(
                    "encryption without authentication protects nothing: add 'auth-trunc ALGORITHM KEY BITS'",
                );
            }
            (None, None, None) => return Err(need("aead ALGORITHM KEY BITS, or enc and auth-trunc")),
            (Some(_), ..) => return mistake("'aead' encrypts and authenticates: leave out 'enc' and 'auth'"),
        };
        if self.window.is_some_and(|window| window > replay::MOST) {
            return mistake(format!("'replay-window': at most {} packets", replay::MOST));
        }
        if self.is_transport && self.rules.pad_to > 0 {
            return mistake(
                "'tfcpad' needs mode tunnel: in transport mode, a receiver could not tell padding from payload",
            );
        }
        if self.is_transport && self.rules.fill_to > 0 && dst.is_multicast() {
            return mistake("'dummies' needs mode tunnel, or a dst that is no group: leave it out");
        }
        if self.rules.keep_alive_s > 0 && self.udp.is_none() {
            return mistake(
                "'keepalive' needs UDP around ESP: add 'encap espinudp PORT PORT', or leave it out",
            );
        }
        let mode = if self.is_transport { Mode::Transport } else { Mode::Tunnel { from: src, to: dst } };
        let esp = Config {
            spi,
            mode,
            udp: self.udp,
            spec,
            is_extended: self.is_extended,
            window: self.window.unwrap_or(replay::DEFAULT),
            rules: self.rules,
        };
        let Read { reqid, selector, limits, progress, .. } = self;
        Ok(AssociationConfig { src, dst, esp, reqid, selector, limits, progress })
    }
}

fn fill_to(words: &mut Words<'_>) -> Result<u32, Mistake> {
    let rate = words.number("dummies")?;
    if rate > FILL_MOST {
        return mistake(format!("'dummies {rate}': at most {FILL_MOST} packets a second"));
    }
    Ok(rate)
}

fn unknown(mut why: esp::algorithm::Unknown) -> Mistake {
    why.name = safe(&why.name).to_owned();
    Mistake(why.to_string())
}

fn icv_len(keyword: &str, words: &mut Words<'_>) -> Result<usize, Mistake> {
    let bits: u16 = words.read(keyword, "bits of the check value, as 128, behind the key")?;
    if bits.is_multiple_of(8) {
        Ok(usize::from(bits / 8))
    } else {
        mistake(format!("'{keyword}': {bits} bits are no whole bytes"))
    }
}

fn aead(words: &mut Words<'_>) -> Result<Spec, Mistake> {
    let algorithm: Aead =
        words.after("aead", "an algorithm, as rfc4106(gcm(aes))")?.parse().map_err(unknown)?;
    Ok(Spec::Combined { algorithm, key: words.key("aead")?, icv_len: icv_len("aead", words)? })
}

/// The key of a null cipher may be there as an empty word, or be left out.
fn null_key(words: &mut Words<'_>) -> Result<Vec<u8>, Mistake> {
    let is_there = words.peek().is_some_and(|word| matches!(word, "''" | "\"\"" | "0x"));
    if is_there {
        words.next();
    }
    Ok(Vec::new())
}

fn encap(words: &mut Words<'_>) -> Result<UdpPorts, Mistake> {
    words.one_of("encap", &[("espinudp", ())])?;
    let ports = UdpPorts {
        from: words.read("encap", "the sender's port")?,
        to: words.read("encap", "the receiver's port")?,
    };
    // The original address, which nobody needs.
    if words.peek().is_some_and(|word| word.parse::<IpAddr>().is_ok()) {
        words.next();
    }
    Ok(ports)
}

fn selector(words: &mut Words<'_>) -> Result<Selector, Mistake> {
    let mut read = SelectorWords::default();
    while let Some(keyword) = words.peek() {
        if !matches!(
            keyword,
            "src" | "dst" | "proto" | "upspec" | "sport" | "dport" | "type" | "code" | "dev"
        ) {
            break;
        }
        words.next();
        read.take(keyword, words)?;
    }
    read.finish()
}

fn progress(words: &mut Words<'_>) -> Result<Progress, Mistake> {
    let sent = words.read("progress", "the number of the last packet sent")?;
    let top = words.read("progress", "the highest number received")?;
    let word = words.after("progress", "the window's bits in hexadecimal")?;
    let all = bytes(word).filter(|bytes| bytes.len().is_multiple_of(4));
    let all =
        all.ok_or_else(|| Mistake("'progress': expected whole words of 32 bits in hexadecimal".into()))?;
    let bitmap = all.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word)).collect();
    Ok(Progress { sent, top, bitmap, life: Life::default() })
}

fn life(words: &mut Words<'_>) -> Result<Life, Mistake> {
    let bytes = words.read("carried", "bytes that passed")?;
    let packets = words.read("carried", "packets that passed")?;
    let age: u64 = words.read("carried", "seconds since it was made")?;
    let used = words.peek().and_then(|word| word.parse::<u64>().ok());
    if used.is_some() {
        words.next();
    }
    let ns = |seconds: u64| seconds.min(u64::MAX / SECOND) * SECOND;
    Ok(Life { usage: Usage { packets, bytes }, age_ns: ns(age), used_ns: used.map(ns) })
}

/// Writes an association so that [`parse_association`] reads the same, if keys are shown.
pub fn show_association(config: &AssociationConfig, keys: Keys) -> String {
    let AssociationConfig { src, dst, esp, reqid, selector, limits, progress } = config;
    let mode = if esp.mode == Mode::Transport { "transport" } else { "tunnel" };
    // The text keeps its place in memory, so that no copy of a key is left elsewhere.
    let mut text = String::with_capacity(WORDS_LEN + 8 * progress.bitmap.len());
    let _ = write!(
        text,
        "src {src} dst {dst} proto esp spi {:#010x} reqid {reqid} mode {mode} replay-window {}",
        esp.spi, esp.window
    );
    let put = |text: &mut String, key: &[u8]| match keys {
        Keys::Shown => put_hex(text, key),
        Keys::Hidden => text.push_str("***"),
    };
    match &esp.spec {
        Spec::Combined { algorithm, key, icv_len } => {
            let _ = write!(text, " aead {algorithm} ");
            put(&mut text, key);
            let _ = write!(text, " {}", icv_len * 8);
        }
        Spec::Separate { cipher, key, auth, auth_key, icv_len } => {
            let _ = write!(text, " enc {cipher} ");
            if *cipher == Cipher::Null {
                text.push_str("''");
            } else {
                put(&mut text, key);
            }
            let _ = write!(text, " auth-trunc {auth} ");
            put(&mut text, auth_key);
            let _ = write!(text, " {}", icv_len * 8);
        }
    }
    if let Some(UdpPorts { from, to }) = esp.udp {
        let _ = write!(text, " encap espinudp {from} {to} 0.0.0.0");
    }
    show_rules(&mut text, esp);
    if let Some(selector) = selector {
        let _ = write!(text, " sel {}", show_selector(selector));
    }
    show_limits(&mut text, limits);
    let Progress { sent, top, bitmap, life } = progress;
    if (*sent, *top) != (0, 0) || !bitmap.is_empty() {
        let bitmap: Vec<u8> = bitmap.iter().flat_map(|word| word.to_be_bytes()).collect();
        let _ = write!(text, " progress {sent} {top} ");
        put_hex(&mut text, &bitmap);
    }
    if *life != Life::default() {
        let _ = write!(text, " carried {} {} {}", life.usage.bytes, life.usage.packets, life.age_ns / SECOND);
        if let Some(used) = life.used_ns {
            let _ = write!(text, " {}", used / SECOND);
        }
    }
    text
}

fn show_rules(text: &mut String, esp: &Config) {
    let (rules, usual) = (&esp.rules, Rules::default());
    let flags = [(esp.is_extended, "esn"), (!rules.ecn, "noecn"), (rules.decap_dscp, "decap-dscp")];
    for (_, name) in flags.iter().filter(|(is_set, _)| *is_set) {
        let _ = write!(text, " flag {name}");
    }
    if !rules.copy_dscp {
        text.push_str(" extra-flag dont-encap-dscp");
    }
    match rules.dont_fragment {
        DontFragment::Copy => {}
        DontFragment::Set => text.push_str(" df set"),
        DontFragment::Clear => text.push_str(" df clear"),
    }
    if rules.ttl != usual.ttl {
        let _ = write!(text, " ttl {}", rules.ttl);
    }
    if rules.pad_to != usual.pad_to {
        let _ = write!(text, " tfcpad {}", rules.pad_to);
    }
    if rules.fill_to != usual.fill_to {
        let _ = write!(text, " dummies {}", rules.fill_to);
    }
    if rules.keep_alive_s != usual.keep_alive_s {
        let _ = write!(text, " keepalive {}", rules.keep_alive_s);
    }
}

fn show_limits(text: &mut String, limits: &Limits) {
    let lists = [
        ("byte", limits.bytes, 1),
        ("packet", limits.packets, 1),
        ("time", limits.age_ns, SECOND),
        ("time-use", limits.use_ns, SECOND),
    ];
    for (name, list, unit) in lists {
        for (limit, kind) in list.iter().zip(["soft", "hard"]) {
            if let Some(limit) = limit {
                let _ = write!(text, " limit {name}-{kind} {}", limit / unit);
            }
        }
    }
}
