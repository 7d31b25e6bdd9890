// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is written is read, and mistakes are named.

use super::*;

const GCM: &str = "src 192.0.2.1 dst 198.51.100.1 proto esp spi 0x00000100 reqid 7 mode tunnel replay-window 1024 \
                   aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128";

fn same(text: &str) {
    let config = parse_association(text).unwrap();
    let shown = show_association(&config, Keys::Shown);
    assert_eq!(parse_association(&shown).unwrap(), config, "{shown}");
}

#[test]
fn keep_alives_need_udp() {
    let why = parse_association(&format!("{GCM} keepalive 20")).unwrap_err().to_string();
    assert!(why.contains("'keepalive' needs UDP around ESP: add 'encap"), "{why}");
    let why =
        parse_association(&format!("{GCM} encap espinudp 1 2 keepalive 65536")).unwrap_err().to_string();
    assert!(why.contains("'keepalive 65536': expected seconds up to 65535"), "{why}");
    let off = parse_association(&format!("{GCM} encap espinudp 1 2 keepalive 0")).unwrap();
    assert_eq!(off, parse_association(&format!("{GCM} encap espinudp 1 2")).unwrap());
}

#[test]
fn associations_go_out_as_they_come_in() {
    assert_eq!(show_association(&parse_association(GCM).unwrap(), Keys::Shown), GCM);
    let hidden = show_association(&parse_association(GCM).unwrap(), Keys::Hidden);
    assert!(hidden.ends_with("aead rfc4106(gcm(aes)) *** 128") && !hidden.contains("0001020304"));
    for more in [
        "flag esn flag noecn decap-dscp",
        "df set ttl 9 tfcpad 1400",
        "tfcpad 65535 dummies 100",
        "encap espinudp 4500 4501 0.0.0.0",
        "encap espinudp 4500 4501 0.0.0.0 keepalive 20",
        "sel src 10.0.0.0/8 dst 10.2.0.0/16 proto udp dport 53",
        "limit byte-soft 1000 limit byte-hard 2000 limit time-hard 3600 limit time-use-soft 5 limit packet-hard 9",
        "progress 17 12 0x0000000700000001",
        "carried 1000 10 3600 3500 progress 17 12 0x0000000700000001",
        "carried 1000 10 3600",
        "extra-flag dont-encap-dscp",
        "flag nopmtudisc",
    ] {
        same(&format!("{GCM} {more}"));
    }
    let key = format!("0x{}", "ab".repeat(32));
    same(&format!(
        "src ::1 dst ::2 spi 256 mode transport enc cbc(aes) {key} auth-trunc hmac(sha256) {key} 128"
    ));
    same(&format!("src ::1 dst ::2 spi 256 enc ecb(cipher_null) '' auth hmac(sha256) {key}"));
    same(&format!("src ::1 dst ::2 spi 256 auth sha256 {key}"));
}

#[test]
fn policies_go_out_as_they_come_in() {
    for text in [
        "src 10.1.0.0/16 dst 10.2.0.0/16 dir out priority 5 index 9 tmpl src 192.0.2.1 dst 198.51.100.1 proto esp reqid 7 mode tunnel",
        "src 10.1.0.0/16 dst 10.2.0.0/16 proto udp sport 500-600 dport 53 dir in priority 0 action block",
        "src ::/0 dst ::/0 proto ipv6-icmp sport 135 dir fwd priority 0",
        "src 10.0.0.1/32 dst 10.0.0.2/32 dir out priority 0 tmpl proto esp reqid 1 mode transport spi 0x00000100 level use",
    ] {
        assert_eq!(show_policy(&parse_policy(text).unwrap()), text);
    }
    let short = parse_policy("dir out dst 10.2.0.1").unwrap();
    assert_eq!(show_policy(&short), "src 0.0.0.0/0 dst 10.2.0.1/32 dir out priority 0");
}

#[test]
fn mistakes_say_what_is_expected() {
    let why = |text: &str| parse_association(text).unwrap_err().0;
    assert_eq!(why("src 10.0.0.1 dst 10.0.0.2"), "an association needs 'spi NUMBER'");
    assert_eq!(why("spi 4294967296"), "'spi 4294967296': expected a number of 32 bits, as 256 or 0x100");
    assert_eq!(why("mode beet"), "'mode beet': expected one of tunnel, transport");
    assert!(
        why("aead aes-gcm 0x12z 128").contains("expected a key in hexadecimal"),
        "and the key is not shown"
    );
    assert!(!why("aead aes-gcm 0x12z 128").contains("12z"));
    assert!(why("src 10.0.0.1 dst 10.0.0.2 spi 256 enc cbc(aes) 0x00").contains("protects nothing"));
    assert!(why("mark 1").contains("not supported"));
    assert!(why("replay-windw 3").contains("unknown word 'replay-windw'; known are src,"));
    assert!(why(&format!("{GCM} replay-window 70000")).contains("at most 65536"));
    assert!(why("limit bytes 3").contains("-soft or -hard"));
    assert_eq!(parse_association(&format!("{GCM} limit time-hard 0")).unwrap().limits.age_ns, [None; 2]);
    let longest = parse_association(&format!("{GCM} limit time-hard {}", u64::MAX)).unwrap().limits.age_ns[1];
    assert_eq!(longest, Some(u64::MAX / 1_000_000_000 * 1_000_000_000), "whole seconds");
    assert!(why("ttl 0").contains("expected a number from 1 to 255"));
    let why = |text: &str| parse_policy(text).unwrap_err().0;
    assert_eq!(why("src 10.0.0.0/8"), "a policy needs 'dir in', 'dir out' or 'dir fwd'");
    assert!(why("dir out src 10.0.0.0/8 dst ::/0").contains("two families"));
    assert!(why("dir out dst 10.0.0.0/8 dport 53").contains("ports need a protocol"));
    assert!(why("dir out dst 10.0.0.0/33").contains("expected a prefix"));
    assert!(why("dir out tmpl mode tunnel").contains("the tunnel's ends"));
    assert!(why("dir out action block tmpl mode transport").contains("leave out 'tmpl'"));
    assert!(why("dir sideways").contains("expected one of in, out, fwd"));
    assert_eq!(parse_id("dst 10.0.0.1 proto esp spi 0x100").unwrap().spi, 256);
    assert!(parse_id("dst 10.0.0.1").is_err());
}

/// Keys that stand where something else should.
#[test]
fn no_message_shows_a_key() {
    let key = "000102030405060708090a0b0c0d0e0f";
    for key in [key.to_owned(), format!("0x{key}"), format!("aes-gcm0x{key}"), "0x00010203zz05".to_owned()] {
        for before in
            ["", "spi ", "aead ", "enc ", "auth ", "mode ", "sel proto ", "limit ", "ttl ", "encap espinudp "]
        {
            let why = parse_association(&format!("{before}{key}")).unwrap_err().0;
            assert!(why.contains("***'"), "{before}: {why}");
        }
        assert!(parse_policy(&key).unwrap_err().0.starts_with("unknown word '***'"));
        assert!(parse_id(&key).unwrap_err().0.starts_with("unknown word '***'"));
        assert!(parse_reservation(&key).unwrap_err().0.starts_with("unknown word '***'"));
    }
}

/// Keys in any place of an association or a policy, instead of a word or before it.
#[test]
fn no_place_makes_a_message_show_a_key() {
    let digits = "0f1e2d3c4b5a69788796a5b4c3d2e1f0aabbccdd";
    let keys =
        ["{}", "0x{}", "'0x{}'", "0x{}z", "key=0x{}", "{},", "0X{}"].map(|form| form.replace("{}", digits));
    let more = "flag esn df set ttl 9 tfcpad 1400 encap espinudp 4500 4501 0.0.0.0 sel src 10.0.0.0/8 proto udp dport 53-54 \
                limit byte-soft 1000 progress 17 12 0x00000007 extra-flag dont-encap-dscp";
    let policy = "src 10.1.0.0/16 dst 10.2.0.0/16 proto udp sport 5-6 dir out priority 5 index 9 action allow tmpl src 192.0.2.1 \
                  dst 198.51.100.1 proto esp spi 256 reqid 7 mode tunnel level use";
    let association = format!("{GCM} {more}");
    let mut refused = 0;
    for text in [&association, policy, "dst 10.0.0.1 spi 0x100 min 1 max 2"] {
        let words: Vec<&str> = text.split_whitespace().collect();
        for (at, key) in (0..=words.len()).flat_map(|at| keys.iter().map(move |key| (at, key))) {
            for kept in [at, (at + 1).min(words.len())] {
                let text = [&words[..at], &[key], &words[kept..]].concat().join(" ");
                let errors = [
                    parse_association(&text).err(),
                    parse_policy(&text).err(),
                    parse_policy_key(&text).err(),
                    parse_id(&text).err(),
                    parse_reservation(&text).err(),
                ];
                for Mistake(why) in errors.into_iter().flatten() {
                    let lower = why.to_lowercase();
                    let part = (0..=digits.len() - 8)
                        .map(|at| &digits[at..at + 8])
                        .find(|part| lower.contains(part));
                    assert_eq!(part, None, "{text}: {why}");
                    refused += 1;
                }
                let found = secrets(&text);
                let at = text.to_lowercase().find(digits).unwrap();
                assert!(
                    found.iter().any(|place| place.start <= at && at + digits.len() <= place.end),
                    "{text}"
                );
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn secrets_are_found() {
    fn hidden(text: &str) -> Vec<&str> {
        secrets(text).into_iter().map(|place| &text[place]).collect()
    }
    assert_eq!(hidden("SA src 10.0.0.1 spi 0x00000100 aead aes-gcm 0x0011 128"), ["0x0011"]);
    assert_eq!(hidden("enc cbc(aes) 'secret' auth-trunc sha256 0x22 96 sel src 1.1.1.1"), ["secret", "0x22"]);
    assert_eq!(hidden("enc null auth-trunc sha256 0x22 96"), ["0x22"]);
    assert_eq!(hidden("'0x00112233445566778899'"), ["0x00112233445566778899"]);
    assert_eq!(hidden("not 'aabbccddeeff00112233445566778899'"), ["aabbccddeeff00112233445566778899"]);
    assert!(hidden("should be a whole number, not '18446744073709551616',").is_empty());
    assert!(hidden("src 10.0.0.0/8 dst 10.0.0.1 dir out tmpl spi 0x12345678 mode transport").is_empty());
}
