// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is tried with Linux, as a table, and the texts that both sides get of it: those of `ip xfrm`.

use std::fmt::Write as _;

/// An algorithm by its name and its words. `KEY20` stands for a key of 20 bytes.
pub struct Algorithm {
    pub name: &'static str,
    pub words: &'static str,
}

const fn algorithm(name: &'static str, words: &'static str) -> Algorithm {
    Algorithm { name, words }
}

pub const GCM: Algorithm = algorithm("AES-GCM-128", "aead rfc4106(gcm(aes)) KEY20 128");
pub const CBC: Algorithm =
    algorithm("AES-CBC-128 SHA-256", "enc cbc(aes) KEY16 auth-trunc hmac(sha256) KEY32 128");

/// All algorithms but those two.
pub const OTHERS: [Algorithm; 17] = [
    algorithm("AES-GCM-128 ICV 8", "aead rfc4106(gcm(aes)) KEY20 64"),
    algorithm("AES-GCM-128 ICV 12", "aead rfc4106(gcm(aes)) KEY20 96"),
    algorithm("AES-GCM-256", "aead rfc4106(gcm(aes)) KEY36 128"),
    algorithm("AES-GCM-256 ICV 8", "aead rfc4106(gcm(aes)) KEY36 64"),
    algorithm("AES-GCM-256 ICV 12", "aead rfc4106(gcm(aes)) KEY36 96"),
    algorithm("AES-GMAC-128", "aead rfc4543(gcm(aes)) KEY20 128"),
    algorithm("AES-GMAC-256", "aead rfc4543(gcm(aes)) KEY36 128"),
    algorithm("ChaCha20-Poly1305", "aead rfc7539esp(chacha20,poly1305) KEY36 128"),
    algorithm("AES-CBC-128 SHA-1", "enc cbc(aes) KEY16 auth-trunc hmac(sha1) KEY20 96"),
    algorithm("AES-CBC-192 SHA-256", "enc cbc(aes) KEY24 auth-trunc hmac(sha256) KEY32 128"),
    algorithm("AES-CBC-256 SHA-384", "enc cbc(aes) KEY32 auth-trunc hmac(sha384) KEY48 192"),
    algorithm("AES-CBC-256 SHA-512", "enc cbc(aes) KEY32 auth-trunc hmac(sha512) KEY64 256"),
    algorithm("null SHA-1", "enc ecb(cipher_null) '' auth-trunc hmac(sha1) KEY20 96"),
    algorithm("null SHA-256", "enc ecb(cipher_null) '' auth-trunc hmac(sha256) KEY32 128"),
    algorithm("null SHA-384", "enc ecb(cipher_null) '' auth-trunc hmac(sha384) KEY48 192"),
    algorithm("null SHA-512", "enc ecb(cipher_null) '' auth-trunc hmac(sha512) KEY64 256"),
    algorithm("3DES SHA-1", "enc cbc(des3_ede) KEY24 auth-trunc hmac(sha1) KEY20 96"),
];

/// The host behind Junctor.
pub const HOST: [&str; 2] = ["10.1.0.2", "2001:db8:1::2"];
/// Junctor's end of tunnels.
pub const GATEWAY: [&str; 2] = ["192.0.2.1", "2001:db8:9::1"];
/// Linux' end of tunnels, and of transport mode.
pub const LINUX: [&str; 2] = ["192.0.2.2", "2001:db8:9::2"];
/// The host behind Linux' end of tunnels: Linux itself.
pub const INSIDE: [&str; 2] = ["10.2.0.1", "2001:db8:2::1"];

/// An index of the constants above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Four,
    Six,
}
pub use Family::{Four, Six};

/// What is between which headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub inner: Family,
    /// The tunnel's family; none is transport mode.
    pub outer: Option<Family>,
    /// Whether ESP is in UDP.
    pub udp: bool,
}

impl Shape {
    pub const fn tunnel(inner: Family, outer: Family) -> Shape {
        Shape { inner, outer: Some(outer), udp: false }
    }

    pub const fn transport(family: Family) -> Shape {
        Shape { inner: family, outer: None, udp: false }
    }

    pub const fn by_udp(self) -> Shape {
        Shape { udp: true, ..self }
    }

    /// All of them.
    pub fn all() -> Vec<Shape> {
        let tunnels = [(Four, Four), (Six, Four), (Four, Six), (Six, Six)];
        let tunnels = tunnels.map(|(inner, outer)| Shape::tunnel(inner, outer));
        let plain = tunnels.into_iter().chain([Four, Six].map(Shape::transport));
        plain.flat_map(|shape| [shape, shape.by_udp()]).collect()
    }
}

/// One thing to try.
#[derive(Clone)]
pub struct Case<'a> {
    pub algorithm: &'a Algorithm,
    pub shape: Shape,
    /// Further words of the associations: of both sides, of Junctor's and of Linux'.
    pub words: &'a str,
    pub ours: [&'a str; 2],
    pub theirs: [&'a str; 2],
    /// The SPI from Junctor to Linux; that of the other direction is the next one.
    pub spi: u32,
    /// What keys are made of.
    pub seed: u8,
}

/// From Junctor to Linux, or the other way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Out,
    In,
}
pub use Way::{In, Out};

impl<'a> Case<'a> {
    pub fn new(algorithm: &'a Algorithm, shape: Shape, spi: u32) -> Case<'a> {
        Case { algorithm, shape, words: "", ours: [""; 2], theirs: [""; 2], spi, seed: 1 }
    }

    pub fn name(&self) -> String {
        format!("{} {:?} {} {:?} {:?}", self.algorithm.name, self.shape, self.words, self.ours, self.theirs)
    }

    /// The address that the host sends to.
    pub fn target(&self) -> &'static str {
        let of = if self.shape.outer.is_some() { INSIDE } else { LINUX };
        of[self.shape.inner as usize]
    }

    pub fn host(&self) -> &'static str {
        HOST[self.shape.inner as usize]
    }

    pub fn mode(&self) -> &'static str {
        if self.shape.outer.is_some() { "tunnel" } else { "transport" }
    }

    fn number(&self, way: Way) -> u32 {
        self.spi + u32::from(way == In)
    }

    /// The ends of an association.
    fn ends(&self, way: Way) -> (&'static str, &'static str) {
        let (here, there) = match self.shape.outer {
            Some(outer) => (GATEWAY[outer as usize], LINUX[outer as usize]),
            None => (self.host(), self.target()),
        };
        if way == Out { (here, there) } else { (there, here) }
    }

    /// Which association is meant.
    pub fn id(&self, way: Way) -> String {
        format!("dst {} spi {:#x}", self.ends(way).1, self.number(way))
    }

    /// The key of so many bytes.
    pub fn key(&self, way: Way, len: u8) -> String {
        (0..len).fold("0x".to_owned(), |mut key, at| {
            let _ =
                write!(key, "{:02x}", at.wrapping_mul(7) ^ self.seed.wrapping_mul(29) ^ (way as u8 * 0x55));
            key
        })
    }

    fn sa(&self, way: Way, more: &str) -> String {
        let (src, dst) = self.ends(way);
        let words = self.algorithm.words.split(' ').map(|word| match word.strip_prefix("KEY") {
            Some(len) => self.key(way, len.parse().unwrap()),
            None => word.to_owned(),
        });
        let udp = if self.shape.udp { " encap espinudp 4500 4500 0.0.0.0" } else { "" };
        let udp = if self.shape.udp && src.contains(':') { " encap espinudp 4500 4500 ::" } else { udp };
        let algorithm: Vec<String> = words.collect();
        format!(
            "src {src} dst {dst} proto esp spi {:#x} reqid 1 mode {} {}{udp} {} {more}",
            self.number(way),
            self.mode(),
            algorithm.join(" "),
            self.words,
        )
    }

    fn template(&self, way: Way) -> String {
        let (src, dst) = self.ends(way);
        match self.shape.outer {
            Some(_) => format!("tmpl src {src} dst {dst} proto esp reqid 1 mode tunnel"),
            None => "tmpl proto esp reqid 1 mode transport".to_owned(),
        }
    }

    /// Junctor's association.
    pub fn our_sa(&self, way: Way) -> String {
        self.sa(way, self.ours[way as usize])
    }

    /// Junctor's policy.
    pub fn our_policy(&self, way: Way) -> String {
        let (src, dst, direction) = match way {
            Out => (self.host(), self.target(), "out"),
            In => (self.target(), self.host(), "fwd"),
        };
        format!("src {src} dst {dst} dir {direction} {}", self.template(way))
    }

    /// The commands that make Linux' association.
    pub fn their_sa(&self, way: Way) -> String {
        let window = if self.words.contains("replay-window") || way == In { "" } else { " replay-window 32" };
        // Linux wants to know that a tunnel carries packets of the other family.
        let mixed = self.shape.outer.is_some_and(|outer| outer != self.shape.inner);
        let more = if mixed { " flag af-unspec" } else { "" };
        let text = self.sa(way, self.theirs[way as usize]) + more;
        let quoted = text
            .split(' ')
            .map(|word| if word.contains('(') { format!("'{word}'") } else { word.to_owned() });
        format!("ip xfrm state add {}{window}\n", quoted.collect::<Vec<_>>().join(" "))
    }

    /// The commands that make all of Linux' databases anew.
    pub fn their_databases(&self) -> String {
        let mut text = "ip xfrm state flush; ip xfrm policy flush\n".to_owned();
        for way in [Out, In] {
            let (src, dst, direction) = match way {
                Out => (self.host(), self.target(), "in"),
                In => (self.target(), self.host(), "out"),
            };
            text += &self.their_sa(way);
            let _ = writeln!(
                text,
                "ip xfrm policy add src {src} dst {dst} dir {direction} priority 9 {}",
                self.template(way)
            );
        }
        if self.shape.udp {
            // Linux asks its policies about UDP that carries ESP, too. Key daemons exempt their sockets.
            let (src, dst) = self.ends(Out);
            let _ = writeln!(
                text,
                "ip xfrm policy add src {src} dst {dst} proto udp dport 4500 dir in priority 1"
            );
        }
        text
    }
}
