// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the server answers, session by session.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use junctor_lsp::{Connection, Settings, serve};
use lsp_server::{Message, Notification, Request};
use serde_json::{Value, json};

mod session;

use session::{check, check_in};

#[test]
fn problems_have_places_codes_and_help() {
    check(
        r#"
        open a.click
        | Idle -> Discrad;
        problems [{"code": "~E", "severity": 1, "source": "junctor", "message": "~Discard", "range": {"start": {"line": 0, "character": 8}, "end": {"line": 0, "character": 15}}}]
        change 0:8-0:15 "Discard"
        problems []
        change "q :: Queue(SIZE 5);\nq :: Queue;\nIdle -> q -> Unqueue -> Discard;\n"
        problems ["has", {"code": "E0202", "range": {"start": {"line": 1, "character": 0}}, "relatedInformation": [{"location": {"uri": "~/a.click", "range": {"start": {"line": 0, "character": 0}}}}]}]
        change "Idle -> \ud83d\ude00;"
        problems ["has", {"range": {"start": {"character": 8}, "end": {"character": 10}}}]
        change "Idle -> ;"
        problems [{"code": "E0101"}]
        "#,
    );
}

#[test]
fn problems_of_rule_files() {
    check(
        r#"
        open a.fw
        | zone inside eth1
        | zone outside eth0
        | acept from inside to outside
        problems ["has", {"severity": 1, "message": "~acept", "range": {"start": {"line": 2, "character": 0}}}]
        change 2:0-2:5 "accept"
        problems []
        change 3:0 "accept from outside to self\nset bad file /etc/passwd\n"
        problems ["has", {"severity": 3, "message": "~not read here"}]
        ask hover 0:0 null
        open b.nat
        | translate 10.0.0.0/8 to
        problems ["has", {"severity": 1}]
        change "translate 10.0.0.0/8 to 192.0.2.1\n"
        problems []
        "#,
    );
}

#[test]
fn fixes_are_offered() {
    check(
        r#"
        open a.click
        | Idle -> Discrad;
        ask codeAction 0:9-0:9 [{"title": "replace 'Discrad' by 'Discard'", "kind": "quickfix", "edit": {"changes": {"file:///no-such-project/a.click": [{"newText": "Discard", "range": {"start": {"character": 8}, "end": {"character": 15}}}]}}}]
        ask codeAction 0:0-0:1 []
        "#,
    );
}

const SAMPLE: &str = r#"
        open a.click
        | define($N 5, $M $N);
        | // Holds packets.
        | q :: Queue($N);
        | elementclass Pair { $n, DEEP $d |
        |     input -> q :: Queue($n) -> Unqueue -> output;
        | }
        | p, r :: Pair($M, DEEP 2);
        | Idle -> p -> q -> Unqueue -> r -> Discard;
        | Script(print q.length, write q.reset, wait 1s);
        | x :: { -> y :: Counter -> };
        | Idle -> x -> Discard;
"#;

fn check_sample(asked: &str) {
    check(&format!("{SAMPLE}\n{asked}"));
}

#[test]
fn the_sample_is_sound_but_for_a_parameter() {
    check_sample(r#"problems [{"code": "W0204", "severity": 2, "message": "~$d"}]"#);
}

#[test]
fn words_are_explained() {
    check_sample(
        r#"
        ask hover 7:16 null
        ask hover 7:13 {"contents": {"kind": "markdown", "value": "~q :: Queue($N)"}, "range": {"start": {"character": 13}, "end": {"character": 14}}}
        ask hover 2:0 {"contents": {"value": "~Holds packets."}}
        ask hover 2:0 {"contents": {"value": "~first-in-first-out"}}
        ask hover 2:0 {"contents": {"value": "~from: `p/Unqueue@2[0] -> [0]`"}}
        ask hover 2:6 {"contents": {"value": "~# Queue, "}}
        ask hover 6:9 {"contents": {"value": "~elementclass Pair { $n, DEEP $d |"}}
        ask hover 6:15 {"contents": {"value": "~$M $N"}}
        ask hover 4:13 {"contents": {"value": "~q :: Queue($n)"}}
        ask hover 8:9 {"contents": {"value": "~HANDLER"}}
        "#,
    );
}

#[test]
fn names_lead_to_their_declarations() {
    check_sample(
        r#"
        ask definition 7:13 {"uri": "~/a.click", "range": {"start": {"line": 2, "character": 0}, "end": {"line": 2, "character": 1}}}
        ask definition 4:13 {"range": {"start": {"line": 4, "character": 13}}}
        ask definition 6:9 {"range": {"start": {"line": 3, "character": 13}}}
        ask definition 2:12 {"range": {"start": {"line": 0, "character": 8}}}
        ask definition 6:14 {"range": {"start": {"line": 0, "character": 14}}}
        ask definition 4:25 {"range": {"start": {"line": 3, "character": 21}}}
        ask definition 7:0 null
        ask definition 7:29 {"range": {"start": {"line": 6, "character": 3}}}
        ask definition 8:13 {"range": {"start": {"line": 2, "character": 0}}}
        ask references 2:0 [{"range": {"start": {"line": 2}}}, {"range": {"start": {"line": 7, "character": 13}}}, {"range": {"start": {"line": 8, "character": 13}}}, {"range": {"start": {"line": 8, "character": 29}}}]
        ask references 2:0 +{"context": {"includeDeclaration": false}} [{"range": {"start": {"line": 7}}}, {}, {}]
        ask references 7:0 [{"range": {"start": {"line": 7}}}, {"range": {"start": {"line": 10}}}]
        ask documentHighlight 6:15 [{"kind": 3}, {"kind": 2, "range": {"start": {"line": 6}}}]
        ask documentHighlight 2:13 [{"kind": 3}, {"kind": 2, "range": {"start": {"line": 0, "character": 17}}}, {"kind": 2, "range": {"start": {"line": 2}}}]
        "#,
    );
}

#[test]
fn paths_lead_into_compounds() {
    let sample = r#"
        open a.click
        | elementclass Outer { -> q :: Queue -> u :: Unqueue -> }
        | o :: Outer;
        | x :: { -> q :: Counter -> in :: Outer -> };
        | Idle -> o -> x -> Discard;
        | Script(print o/q.length, write "x/q.reset", read o/none.x, read x/in/q.length);
        ask definition 4:13 {"range": {"start": {"line": 1, "character": 0}}}
        ask definition 4:15 {"range": {"start": {"line": 0, "character": 24}}}
        ask definition 4:34 {"range": {"start": {"line": 2, "character": 10}}}
        ask definition 4:53 null
        ask definition 4:68 {"range": {"start": {"line": 2, "character": 26}}}
        ask definition 4:69 {"range": {"start": {"line": 0, "character": 24}}}
        ask hover 4:15 {"contents": {"value": "~q :: Queue"}}
        ask references 2:10 [{"range": {"start": {"line": 2}}}, {"range": {"start": {"line": 4, "character": 34}}}]
        ask rename 4:15 +{"newName": "store"} {"changes": {"file:///no-such-project/a.click": [{"range": {"start": {"line": 0, "character": 24}}}, {"range": {"start": {"line": 4, "character": 15}}}, {"range": {"start": {"line": 4, "character": 69}}}]}}
        ask rename 1:0 +{"newName": "p"} {"changes": {"file:///no-such-project/a.click": [{"range": {"start": {"line": 1}}}, {"range": {"start": {"line": 3}}}, {"range": {"start": {"line": 4, "character": 13}}}, {"range": {"start": {"line": 4, "character": 49}}}]}}
        refused rename 4:15 +{"newName": "u"} already means something else
        ask completion 4:15 {"items": ["has", {"label": "q", "detail": "Queue"}, {"label": "u"}]}
        ask completion 4:15 {"items": ["lacks", {"label": "x"}, {"label": "CAPACITY"}]}
        "#;
    check(sample);
    // Of two bodies that declare a name, a path may mean either.
    check(
        r#"
        open a.click
        | elementclass Both { -> q :: Queue -> Unqueue -> || $n | -> q :: Counter -> }
        | o :: Both;
        | Idle -> o -> Discard;
        | Script(read o/q.count);
        ask definition 3:14 null
        "#,
    );
}

#[test]
fn names_are_changed_in_their_scopes() {
    check_sample(
        r#"
        ask prepareRename 7:13 {"placeholder": "q"}
        ask rename 7:13 +{"newName": "store"} {"changes": {"file:///no-such-project/a.click": [{"newText": "store", "range": {"start": {"line": 2}}}, {"range": {"start": {"line": 7}}}, {"range": {"start": {"line": 8}}}, {}]}}
        ask rename 4:13 +{"newName": "store"} {"changes": {"file:///no-such-project/a.click": [{"range": {"start": {"line": 4}}}]}}
        ask rename 0:8 +{"newName": "$LENGTH"} {"changes": {"file:///no-such-project/a.click": [{"newText": "LENGTH"}, {}, {"range": {"start": {"line": 2, "character": 12}}}]}}
        ask rename 3:14 +{"newName": "Two"} {"changes": {"file:///no-such-project/a.click": [{}, {"range": {"start": {"line": 6}}}]}}
        refused rename 7:13 +{"newName": "p"} already means something else
        refused rename 0:8 +{"newName": "M"} already means something else
        refused rename 7:13 +{"newName": "a b"} is not a name
        refused rename 7:13 +{"newName": "define"} a word of the language
        refused rename 7:13 +{"newName": "12"} a number
        refused rename 7:0 +{"newName": "Null"} is not declared in this text
        refused prepareRename 1:5 no name here
        "#,
    );
}

#[test]
fn the_outline_shows_what_lies_in_each_other() {
    check_sample(
        r#"
        ask documentSymbol 0:0 [{"name": "$N", "kind": 13}, {"name": "$M"}, {"name": "q", "detail": "Queue", "range": {"end": {"line": 2, "character": 14}}}, {"name": "Pair", "kind": 5, "children": [{"name": "$n"}, {"name": "$d"}, {"name": "q"}]}, {"name": "p", "detail": "Pair"}, {"name": "r"}, {"name": "x", "children": [{"name": "y", "detail": "Counter"}]}]
        "#,
    );
}

#[test]
fn what_may_be_written_is_offered() {
    check_sample(
        r#"
        ask completion 7:8 {"items": ["has", {"label": "q", "detail": "Queue"}, {"label": "Queue", "kind": 7, "detail": "~first-in-first-out"}, {"label": "Pair"}, {"label": "IPRouter"}]}
        ask completion 7:8 {"items": ["lacks", {"label": "y"}, {"label": "input"}]}
        ask completion 4:13 {"items": ["has", {"label": "q"}, {"label": "input"}]}
        ask completion 2:5 {"items": ["lacks", {"label": "q"}, {"label": "elementclass"}]}
        ask completion 2:11 {"items": ["has", {"label": "CAPACITY", "detail": "~packets it holds"}, {"label": "SYNC"}, {"label": "q"}]}
        ask completion 2:12 {"items": ["has", {"label": "N", "detail": "$N 5"}, {"label": "M"}]}
        ask completion 2:12 {"items": ["lacks", {"label": "n"}]}
        ask completion 4:26 {"items": ["has", {"label": "n"}, {"label": "N"}]}
        ask completion 6:17 {"items": ["has", {"label": "DEEP", "detail": "$d"}]}
        ask completion 8:7 {"items": ["has", {"label": "print"}, {"label": "wait"}, {"label": "q"}]}
        ask completion 8:15 {"items": ["has", {"label": "length", "detail": "read"}, {"label": "reset", "detail": "write"}, {"label": "name"}]}
        ask completion 1:5 {"items": []}
        open b.click
        | c :: Classifier(12/0800, -); Idle -> c[
        ask completion 0:41 {"items": ["has", {"label": "0"}, {"label": "1"}]}
        change "x :: { -> y :: Counter -> }; Script(print x/y.)"
        ask completion 0:46 {"items": ["has", {"label": "count"}]}
        change ""
        ask completion 0:0 {"items": ["has", {"label": "elementclass"}, {"label": "Queue"}]}
        "#,
    );
}

#[test]
fn words_have_kinds() {
    check(
        r#"
        open a.click
        | /* a
        |  b */ q :: Queue($n);
        ask semanticTokens/full 0:0 {"data": [0,0,4,4,0, 1,0,5,4,0, 0,6,1,1,0, 0,5,5,0,0, 0,7,1,2,0]}
        "#,
    );
}

#[test]
fn texts_are_formatted() {
    check(
        r#"
        open a.click
        | q::Queue(1,2);
        ask formatting 0:0 [{"newText": "q :: Queue(1, 2);\n", "range": {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}}}]
        change "q :: Queue(1, 2);\n"
        ask formatting 0:0 []
        change "q :: ("
        ask formatting 0:0 null
        "#,
    );
}

#[test]
fn edits_are_applied_where_they_belong() {
    check(
        r#"
        open a.click
        | // 😀 é
        | Idle -> Discard;
        change 0:5-0:7 "x 中"
        change 1:0-1:4 "q :: Null"
        ask documentSymbol 0:0 [{"name": "q", "range": {"start": {"line": 1, "character": 0}}}]
        change 0:3-0:6 ""
        change 0:5-1:0 "\n"
        ask documentSymbol 0:0 [{"name": "q"}]
        change 9:9-9:9 "r :: Null;"
        ask documentSymbol 0:0 [{}, {"name": "r", "range": {"start": {"line": 2}}}]
        "#,
    );
}

#[test]
fn libraries_are_read_in_the_project_only() {
    let project = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let put = |at: &std::path::Path| {
        std::fs::write(at.join("lib.click"), "elementclass Twice { -> Null -> Null -> }\n").unwrap();
        at.canonicalize().unwrap().join("lib.click").display().to_string()
    };
    let (inside, elsewhere) = (put(project.path()), put(outside.path()));
    let root = project.path().canonicalize().unwrap();
    check_in(
        root.to_str().unwrap(),
        &format!(
            r#"
        open a.click
        | require(library lib.click);
        | Idle -> Twice -> Discard;
        problems []
        ask definition 1:9 {{"uri": "file://{inside}", "range": {{"start": {{"line": 0, "character": 13}}}}}}
        change 0:16-0:25 "{elsewhere}"
        problems [{{"code": "E0505", "severity": 3}}]
        change 0:16-0:99 "gone.click);"
        problems [{{"code": "E0503", "severity": 1}}]
        "#
        ),
    );
}

#[test]
fn a_burst_of_edits_is_checked_once() {
    let (server, client) = Connection::memory();
    let send = |message: Message| client.sender.send(message).unwrap();
    let notify = |method: &str, parameters: Value| send(Notification::new(method.into(), parameters).into());
    let request = |id: i32, method: &str| send(Request::new(id.into(), method.into(), json!({})).into());
    request(1, "initialize");
    notify("initialized", json!({}));
    let document = json!({ "uri": "untitled:1", "languageId": "click", "version": 0, "text": "" });
    notify("textDocument/didOpen", json!({ "textDocument": document }));
    for version in 1..=50 {
        let change = json!({ "text": format!("a{version} -> Discard;") });
        let document = json!({ "uri": "untitled:1", "version": version });
        notify("textDocument/didChange", json!({ "textDocument": document, "contentChanges": [change] }));
    }
    let serving = std::thread::spawn(move || serve(&server, &Settings::default()));
    let receive = || client.receiver.recv_timeout(Duration::from_secs(120)).expect("an answer");
    let published = loop {
        if let Message::Notification(found) = receive() {
            break found.params;
        }
    };
    assert_eq!(published["version"], 50);
    assert!(published["diagnostics"][0]["message"].as_str().unwrap().contains("a50"), "{published}");
    request(2, "shutdown");
    assert!(matches!(receive(), Message::Response(_)), "nothing was checked twice");
    notify("exit", json!({}));
    serving.join().unwrap().unwrap();
}

/// When a file was last read.
fn last_read(path: &Path) -> (i64, i64) {
    let about = std::fs::metadata(path).unwrap();
    (about.atime(), about.atime_nsec())
}

#[test]
fn no_file_that_a_configuration_names_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("named.rules");
    std::fs::write(&file, "zone inside eth1\n").unwrap();
    // Linux then notes the next time that the file is read, if the file system does at all.
    let long_ago = std::fs::FileTimes::new().set_accessed(std::time::UNIX_EPOCH + Duration::from_secs(9));
    let forget = || std::fs::File::options().append(true).open(&file).unwrap().set_times(long_ago).unwrap();
    forget();
    let untouched = last_read(&file);
    std::fs::read(&file).unwrap();
    if last_read(&file) == untouched {
        eprintln!("skipped: this file system does not note when files are read");
        return;
    }
    let name = file.display().to_string();
    let texts = [
        format!(
            "Idle -> fw :: Firewall({name}, LINK eth1 1, LINK eth0 2) -> Discard; Idle -> [1]fw; fw[1] -> Discard;"
        ),
        format!("Idle -> n :: NAT44({name}) -> Discard; Idle -> [1]n; n[1] -> Discard;"),
        format!("Idle -> n :: NAT64({name}) -> Discard; Idle -> [1]n; n[1] -> Discard;"),
        format!("Idle -> Balance({name}) -> Discard;"),
        format!("NatGateway(eth0 192.0.2.1/24, eth1 10.0.0.1/8, OUTSIDE eth0, NAT {name});"),
        format!("Idle -> SessionSync(PEER 10.9.0.2, LOCAL 10.9.0.1, KEY {name}, TABLES n) -> Discard;"),
        format!("Idle -> w :: WireGuard({name}) -> Discard; Idle -> [1]w; w[1] -> Discard;"),
        format!("r :: LookupIPRoute(FILE {name}); Idle -> r -> Discard;"),
        format!("FromDump({name}) -> ToDump({name});"),
        format!("FromIPSummaryDump({name}) -> Discard; Script(print >{name} x, save a.b {name});"),
        format!("IPsecDatabase(FILE {name});"),
        format!("require(library {name});"),
    ];
    for text in texts {
        for round in 0..2 {
            forget();
            let before = last_read(&file);
            // Hovering asks what checking has found.
            let session = match round {
                0 => format!("open a.click\n| {text}\nproblems [\"...\"]"),
                _ => format!("open a.fw\n| set named file {name}\nproblems [\"...\"]"),
            };
            check(&session);
            assert_eq!(last_read(&file), before, "{session}");
        }
    }
}
