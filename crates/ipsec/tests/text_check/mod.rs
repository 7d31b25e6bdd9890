// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the fuzz target `ipsec_text` and its corpus' replay share: any text is read by all readers. What is read is written, and read back equal; no message shows a key.

use junctor_ipsec::text::{
    Keys, Mistake, parse_association, parse_id, parse_policy, parse_policy_key, parse_reservation, secrets,
    show_association, show_policy,
};
use junctor_ipsec::{AssociationConfig, Progress};

/// What the readers made of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it is an association.
    pub is_association: bool,
    /// Whether it is a policy.
    pub is_policy: bool,
}

/// Hexadecimal digits of a key of eight bytes.
const DIGITS: usize = 16;

/// The words of a text that only keys look like: at least eight bytes in hexadecimal, behind 0x.
fn keys(text: &str) -> impl Iterator<Item = &str> {
    let word = |place| &text[place];
    secrets(text).into_iter().map(word).filter(|word| {
        let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
        digits.is_some_and(|digits| {
            digits.len() >= DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    })
}

/// What was read; and no message that shows a key.
fn read<T>(text: &str, result: Result<T, Mistake>) -> Option<T> {
    result
        .map_err(|Mistake(why)| {
            let longest = why.split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max();
            assert!(longest < Some(DIGITS), "'{why}' may show a key of '{text}'");
        })
        .ok()
}

fn check_association(config: &AssociationConfig) {
    let shown = show_association(config, Keys::Shown);
    assert_eq!(parse_association(&shown).as_ref(), Ok(config), "{shown}");
    // The window's bits are no secret, and may look like one.
    let config = AssociationConfig { progress: Progress::default(), ..config.clone() };
    let (shown, hidden) = (show_association(&config, Keys::Shown), show_association(&config, Keys::Hidden));
    let leaked = keys(&shown).find(|key| hidden.contains(key));
    assert_eq!(leaked, None, "{hidden}");
    assert_eq!(keys(&hidden).next(), None, "{hidden}");
    // What else shows a text leaves out what `secrets` finds: then nothing of a key is left.
    let mut rest = shown.clone();
    secrets(&shown).into_iter().rev().for_each(|place| rest.replace_range(place, "***"));
    assert_eq!(rest, hidden, "what secrets() leaves of {shown}");
}

/// Has a text read by everybody.
pub fn check(text: &str) -> Outcome {
    let association = read(text, parse_association(text));
    let policy = read(text, parse_policy(text));
    association.iter().for_each(check_association);
    let key = read(text, parse_policy_key(text));
    assert_eq!(key, policy.as_ref().map(|policy| policy.key()));
    if let Some(policy) = &policy {
        let shown = show_policy(policy);
        assert_eq!(parse_policy(&shown).as_ref(), Ok(policy), "{shown}");
    }
    let id = read(text, parse_id(text));
    if let Some(id) = id {
        assert_eq!(parse_id(&format!("dst {} spi {:#x}", id.dst, id.spi)), Ok(id));
    }
    read(text, parse_reservation(text));
    Outcome { is_association: association.is_some(), is_policy: policy.is_some() }
}
