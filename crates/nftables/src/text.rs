// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules as `nft` prints them.

use serde_json::Value;

/// Bytes of a rule's text at most, and elements of a set that are shown.
const TEXT_MAX: usize = 240;
const SHOWN: usize = 8;

/// A text that ends when it is long enough.
struct Out(String);

impl Out {
    fn put(&mut self, text: &str) {
        if self.0.len() <= TEXT_MAX {
            self.0.push_str(text);
        }
    }

    fn list(&mut self, all: &[Value], between: &str, one: impl Fn(&mut Out, &Value)) {
        for (n, value) in all.iter().take(SHOWN).enumerate() {
            if n > 0 {
                self.put(between);
            }
            one(self, value);
        }
        if all.len() > SHOWN {
            self.put(between);
            self.put("...");
        }
    }
}

/// The text of one line, without characters that end it, and cut where it is too long.
pub(crate) fn line(text: &str) -> String {
    let mut kept: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if kept.len() > TEXT_MAX {
        let end = (0..=TEXT_MAX).rev().find(|at| kept.is_char_boundary(*at)).unwrap_or(0);
        kept.truncate(end);
        kept.push_str("...");
    }
    kept
}

/// A rule.
pub(crate) fn rule(statements: &[Value]) -> String {
    let mut out = Out(String::new());
    for (n, one) in statements.iter().enumerate() {
        if n > 0 {
            out.put(" ");
        }
        statement(&mut out, one);
    }
    line(&out.0)
}

/// A comparison.
pub(crate) fn comparison(left: &Value, op: &str, right: &Value) -> String {
    let mut out = Out(String::new());
    compare(&mut out, left, op, right);
    line(&out.0)
}

fn compare(out: &mut Out, left: &Value, op: &str, right: &Value) {
    expression(out, left);
    let is_usual = op == "in" || op == "==" && left.get("&").is_none();
    out.put(" ");
    if !is_usual {
        out.put(op);
        out.put(" ");
    }
    match right {
        Value::Array(flags) => out.list(flags, ",", expression),
        other => expression(out, other),
    }
}

/// A statement: an object with one key.
fn statement(out: &mut Out, whole: &Value) {
    let Some((key, value)) = whole.as_object().and_then(|object| object.iter().next()) else {
        return out.put(&whole.to_string());
    };
    match key.as_str() {
        "match" => compare(out, &value["left"], value["op"].as_str().unwrap_or("=="), &value["right"]),
        "jump" | "goto" => {
            out.put(key);
            out.put(" ");
            out.put(value["target"].as_str().unwrap_or("?"));
        }
        "counter" if value.is_object() => out.put("counter"),
        "counter" | "limit" if value.is_string() => {
            out.put(key);
            out.put(" name ");
            expression(out, value);
        }
        "log" => {
            out.put("log");
            for (name, value) in value.as_object().into_iter().flatten() {
                out.put(&format!(" {name} {value}"));
            }
        }
        "limit" => put_limit(out, value),
        "ct count" => {
            out.put(if value["inv"] == true { "ct count over " } else { "ct count " });
            expression(out, &value["val"]);
        }
        "reject" => {
            out.put("reject");
            match value["type"].as_str() {
                None => {}
                Some("tcp reset") => out.put(" with tcp reset"),
                Some(kind) => {
                    out.put(&format!(" with {kind} "));
                    expression(out, &value["expr"]);
                }
            }
        }
        "vmap" => {
            expression(out, &value["key"]);
            out.put(" vmap ");
            expression(out, &value["data"]);
        }
        "mangle" => {
            expression(out, &value["key"]);
            out.put(" set ");
            expression(out, &value["value"]);
        }
        "set" | "meter" => collecting(out, key, value),
        "snat" | "dnat" | "masquerade" | "redirect" => nat(out, key, value),
        _ if value.is_null() => out.put(key),
        _ => out.put(&format!("{key} {value}")),
    }
}

/// A limit.
pub(crate) fn limit(value: &Value) -> String {
    let mut out = Out(String::new());
    put_limit(&mut out, value);
    line(&out.0)
}

fn put_limit(out: &mut Out, value: &Value) {
    out.put("limit rate ");
    if value["inv"] == true {
        out.put("over ");
    }
    out.put(&value["rate"].to_string());
    if let Some(unit) = value["rate_unit"].as_str().filter(|unit| *unit != "packets") {
        out.put(&format!(" {unit}"));
    }
    out.put(&format!("/{}", value["per"].as_str().unwrap_or("?")));
    if let Some(burst) = value["burst"].as_u64().filter(|burst| *burst > 0) {
        out.put(&format!(" burst {burst} {}", value["burst_unit"].as_str().unwrap_or("packets")));
    }
}

/// A statement that adds to a set, and does something for each element.
fn collecting(out: &mut Out, key: &str, value: &Value) {
    let (name, element) = match key {
        "meter" => (&value["name"], &value["key"]),
        _ => (&value["set"], &value["elem"]),
    };
    out.put(if key == "meter" { "meter" } else { value["op"].as_str().unwrap_or("add") });
    out.put(" ");
    expression(out, name);
    out.put(" { ");
    expression(out, element);
    let each = match &value["stmt"] {
        Value::Array(all) => all.as_slice(),
        Value::Null => &[],
        one => std::slice::from_ref(one),
    };
    for one in each {
        out.put(" ");
        statement(out, one);
    }
    out.put(" }");
}

fn nat(out: &mut Out, key: &str, value: &Value) {
    out.put(key);
    let (address, port) = (&value["addr"], &value["port"]);
    if !address.is_null() || !port.is_null() {
        out.put(" to ");
    }
    if !address.is_null() {
        expression(out, address);
    }
    if !port.is_null() {
        out.put(":");
        expression(out, port);
    }
    match &value["flags"] {
        Value::Array(all) if !all.is_empty() => {
            out.put(" ");
            out.list(all, ",", expression);
        }
        Value::String(flag) => out.put(&format!(" {flag}")),
        _ => {}
    }
}

/// Parts with a sign between them; several flags of one part stand in parentheses.
fn operation(out: &mut Out, between: &str, parts: &Value) {
    let Value::Array(parts) = parts else { return expression(out, parts) };
    out.list(parts, between, |out, part| match part {
        Value::Array(flags) => {
            out.put("(");
            out.list(flags, " | ", expression);
            out.put(")");
        }
        other => expression(out, other),
    });
}

fn expression(out: &mut Out, value: &Value) {
    if out.0.len() > TEXT_MAX {
        return;
    }
    let (key, inner) = match value {
        Value::String(text) => return out.put(text),
        Value::Object(object) if object.len() == 1 => match object.iter().next() {
            Some(pair) => pair,
            None => return,
        },
        Value::Array(pair) if pair.len() == 2 => {
            expression(out, &pair[0]);
            out.put(" : ");
            return match &pair[1] {
                verdict @ Value::Object(_) if verdict.get("concat").is_none() => statement(out, verdict),
                other => expression(out, other),
            };
        }
        other => return out.put(&other.to_string()),
    };
    let word = |name: &str| inner[name].as_str().unwrap_or_default();
    match key.as_str() {
        "payload" if inner["tunnel"].is_string() => {
            out.put(&format!("{} ", word("tunnel")));
            let mut outer = inner.clone();
            outer.as_object_mut().and_then(|object| object.remove("tunnel"));
            expression(out, &serde_json::json!({ "payload": outer }));
        }
        "payload" if inner["base"].is_string() => {
            out.put(&format!("@{},{},{}", word("base"), inner["offset"], inner["len"]));
        }
        "payload" => out.put(&format!("{} {}", word("protocol"), word("field"))),
        "meta" => {
            let bare = ["iif", "iifname", "oif", "oifname", "iifgroup", "oifgroup"];
            let key = word("key");
            out.put(&if bare.contains(&key) { key.to_owned() } else { format!("meta {key}") });
        }
        "ct" => {
            let direction = word("dir");
            out.put(&format!("ct {direction}{}{}", if direction.is_empty() { "" } else { " " }, word("key")));
        }
        "fib" => {
            out.put("fib ");
            match &inner["flags"] {
                Value::Array(flags) => out.list(flags, " . ", expression),
                flag => expression(out, flag),
            }
            out.put(&format!(" {}", word("result")));
        }
        "set" => {
            out.put("{ ");
            match inner {
                Value::Array(all) => out.list(all, ", ", expression),
                one => expression(out, one),
            }
            out.put(" }");
        }
        "elem" => expression(out, &inner["val"]),
        "prefix" => {
            expression(out, &inner["addr"]);
            out.put(&format!("/{}", inner["len"]));
        }
        "range" => operation(out, "-", inner),
        "concat" => operation(out, " . ", inner),
        "&" | "|" | "^" | "<<" | ">>" => operation(out, &format!(" {key} "), inner),
        "map" => {
            expression(out, &inner["key"]);
            out.put(" map ");
            expression(out, &inner["data"]);
        }
        _ => out.put(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_look_as_nft_prints_them() {
        for (json, expected) in [
            (
                r#"[{"match":{"op":"==","left":{"payload":{"protocol":"tcp","field":"dport"}},"right":{"set":[22,{"range":[80,90]}]}}},{"counter":{"packets":1,"bytes":2}},{"accept":null}]"#,
                "tcp dport { 22, 80-90 } counter accept",
            ),
            (
                r#"[{"match":{"op":"in","left":{"ct":{"key":"state"}},"right":["established","related"]}},{"drop":null}]"#,
                "ct state established,related drop",
            ),
            (
                r#"[{"match":{"op":"==","left":{"&":[{"payload":{"protocol":"tcp","field":"flags"}},["fin","syn"]]},"right":"syn"}},{"reject":{"type":"tcp reset"}}]"#,
                "tcp flags & (fin | syn) == syn reject with tcp reset",
            ),
            (
                r#"[{"match":{"op":"!=","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":{"prefix":{"addr":"10.0.0.0","len":8}}}},{"limit":{"rate":5,"burst":9,"per":"second","inv":true}},{"jump":{"target":"x"}}]"#,
                "ip saddr != 10.0.0.0/8 limit rate over 5/second burst 9 packets jump x",
            ),
            (
                r#"[{"vmap":{"key":{"meta":{"key":"iifname"}},"data":{"set":[["eth0",{"jump":{"target":"lan"}}]]}}}]"#,
                "iifname vmap { eth0 : jump lan }",
            ),
            (
                r#"[{"meter":{"key":{"payload":{"protocol":"ip","field":"saddr"}},"stmt":{"ct count":{"val":10,"inv":true}},"size":1,"name":"m"}},{"drop":null}]"#,
                "meter m { ip saddr ct count over 10 } drop",
            ),
            (
                r#"[{"match":{"op":"==","left":{"fib":{"result":"oif","flags":["saddr","iif"]}},"right":false}},{"dnat":{"addr":"10.0.0.1","port":80}}]"#,
                "fib saddr . iif oif false dnat to 10.0.0.1:80",
            ),
            (
                r#"[{"match":{"op":"==","left":{"payload":{"base":"th","offset":0,"len":32}},"right":5}}]"#,
                "@th,0,32 5",
            ),
            (
                r#"[{"match":{"op":"==","left":{"payload":{"tunnel":"vxlan","protocol":"ip","field":"saddr"}},"right":"10.0.0.1"}}]"#,
                "vxlan ip saddr 10.0.0.1",
            ),
            (r#"[{"new":{"a":1}}, 7]"#, r#"new {"a":1} 7"#),
        ] {
            let statements: Vec<Value> = serde_json::from_str(json).unwrap();
            assert_eq!(rule(&statements), expected);
        }
        let long = Value::from("x\n".repeat(1000));
        assert!(rule(&[long]).len() <= TEXT_MAX + 3);
    }
}
