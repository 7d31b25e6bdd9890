// SPDX-License-Identifier: MIT OR Apache-2.0
//! What holds for any text as a configuration: nothing ends the process, and no message shows a private key.

use junctor_wireguard::config::{hidden, parse, parse_peer};

/// Reads a text as a file and as a peer. Returns whether it is either.
pub fn check(text: &str) -> bool {
    let _ = hidden(text);
    let file = parse(text);
    if let Err(mistakes) = &file {
        assert!(!mistakes.is_empty());
        let lines = text.lines().count().max(1);
        for mistake in mistakes {
            assert!((1..=lines).contains(&mistake.line), "{mistake}");
            shows_no_key(text, &mistake.to_string());
        }
    }
    let peer = parse_peer(text);
    if let Err(why) = &peer {
        shows_no_key(text, &why.to_string());
    }
    file.is_ok() || peer.is_ok()
}

/// Words behind names of secrets do not stand in a message, if they are as long as a key and have its letters.
fn shows_no_key(text: &str, message: &str) {
    let is_of_key = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    for place in junctor_wireguard::config::secrets(text) {
        let secret = &text[place];
        let may_be_key = secret.len() >= 40 && secret.bytes().all(is_of_key);
        assert!(!may_be_key || !message.contains(secret), "{message}");
    }
}
