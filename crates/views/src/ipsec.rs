// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPsec associations, policies and events of a router.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Events, and the cursor on the last line.
pub fn split_cursor(text: &str) -> (&str, &str) {
    let text = text.trim_end();
    let at = text.rfind('\n').map_or(0, |at| at + 1);
    match text[at..].strip_prefix("next ") {
        Some(cursor) => (&text[..at], cursor),
        None => (text, "now"),
    }
}

/// Lines as an array.
pub fn lines(text: &str) -> Value {
    text.lines().collect()
}

/// Associations as objects. Two lines are one association: its words, and behind a tab what it has carried.
pub fn associations(text: &str) -> Value {
    let mut all = Vec::new();
    for line in text.lines() {
        match line.strip_prefix('\t') {
            None => all.push(object(line)),
            Some(carried) => {
                if let Some(last) = all.last_mut() {
                    last.extend(numbers(carried));
                }
            }
        }
    }
    all.into_iter().map(Value::Object).collect()
}

fn object(line: &str) -> Map<String, Value> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |keyword: &str| {
        let at = words.iter().position(|word| *word == keyword)?;
        words.get(at + 1).map(|word| (*word).to_owned())
    };
    let names = ["src", "dst", "spi", "reqid", "mode"];
    let mut object: Map<String, Value> =
        names.iter().filter_map(|name| Some(((*name).to_owned(), after(name)?.into()))).collect();
    let algorithm = ["aead", "enc"].iter().find_map(|keyword| after(keyword));
    let with = after("auth-trunc").map_or(String::new(), |auth| format!(" {auth}"));
    object.insert("algorithm".into(), (algorithm.unwrap_or_default() + &with).into());
    object.insert("text".into(), line.into());
    object
}

/// Words and numbers in turn.
fn numbers(text: &str) -> Map<String, Value> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pairs = words.as_chunks::<2>().0;
    pairs
        .iter()
        .map(|[name, value]| {
            let value = value.parse::<u64>().map_or_else(|_| Value::from(*value), Value::from);
            ((*name).replace('-', "_"), value)
        })
        .collect()
}

/// Associations as a table.
pub fn table(associations: &Value) -> String {
    let mut text = format!(
        "{:<22} {:<22} {:<10} {:>6} {:<9} {:<30} {:>10} {:>13} {:>8} {:>8}\n",
        "SOURCE", "DESTINATION", "SPI", "REQID", "MODE", "ALGORITHM", "PACKETS", "BYTES", "REFUSED", "AGE s"
    );
    for association in associations.as_array().into_iter().flatten() {
        let word = |name: &str| association[name].as_str().unwrap_or("-").to_owned();
        let number = |name: &str| association[name].as_u64().unwrap_or(0);
        let refused = number("replayed") + number("outside_window") + number("bad_icv");
        let _ = writeln!(
            text,
            "{:<22} {:<22} {:<10} {:>6} {:<9} {:<30} {:>10} {:>13} {:>8} {:>8}",
            word("src"),
            word("dst"),
            word("spi"),
            word("reqid"),
            word("mode"),
            word("algorithm"),
            number("packets"),
            number("bytes"),
            refused,
            number("age_ns") / 1_000_000_000,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAS: &str = "src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x00000100 reqid 1 mode tunnel replay-window 1024 enc cbc(aes) *** auth-trunc hmac(sha256) *** 128\n\
        \tsent 3 top 0 bytes 180 packets 3 replayed 1 outside-window 0 bad-icv 2 age_ns 9000000000\n";

    #[test]
    fn associations_become_a_table_and_objects() {
        let all = associations(SAS);
        assert_eq!((all[0]["spi"].as_str(), all[0]["bad_icv"].as_u64()), (Some("0x00000100"), Some(2)));
        let table = table(&all);
        let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
        let want = [
            "192.0.2.1",
            "192.0.2.2",
            "0x00000100",
            "1",
            "tunnel",
            "cbc(aes)",
            "hmac(sha256)",
            "3",
            "180",
            "3",
            "9",
        ];
        assert_eq!(row, want);
    }

    #[test]
    fn the_cursor_stands_behind_events() {
        assert_eq!(split_cursor("lost 3\nexpire a\nnext 17\n"), ("lost 3\nexpire a\n", "17"));
        assert_eq!(split_cursor("next 17"), ("", "17"));
        assert_eq!(split_cursor("something"), ("something", "now"));
    }

    #[test]
    fn counters_are_numbers_or_words() {
        assert_eq!(numbers("a 1 b two").get("b"), Some(&Value::from("two")));
    }
}
