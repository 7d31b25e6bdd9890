// SPDX-License-Identifier: MIT OR Apache-2.0
//! `junctor fmt` and `junctor lsp` as programs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

fn junctor(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

/// Formats standard input; its exit status, output and errors.
fn check(arguments: &[&str], input: &str, status: i32, output: &str, said: &str) {
    let got = junctor(&[&["fmt"], arguments].concat(), input);
    let (out, err) = (String::from_utf8_lossy(&got.stdout), String::from_utf8_lossy(&got.stderr));
    assert_eq!((got.status.code(), &*out), (Some(status), output), "{arguments:?} {input:?}\n{err}");
    assert!(if said.is_empty() { err.is_empty() } else { err.contains(said) }, "{input:?}: {err}");
}

#[test]
fn standard_input_is_formatted() {
    check(&["--stdin"], "a::Null;Idle->a;", 0, "a :: Null;\nIdle -> a;\n", "");
    check(&["--stdin"], "Idle -> ;", 2, "", "syntax error near ';'");
    check(&["--stdin"], "!<arch>\n", 2, "", "an archive");
    let diff = "--- <stdin>\n+++ <stdin> (formatted)\n@@ -1,1 +1,1 @@\n-a::Null;\n+a :: Null;\n";
    check(&["--stdin", "--check"], "a::Null;\n", 1, diff, "");
    check(&["--stdin", "--check"], "a :: Null;\n", 0, "", "");
    check(&[], "", 2, "", "FILE");
    check(&["/no/such.click"], "", 2, "", "check the path");
    check(&["/"], "", 2, "", "a directory");
}

#[test]
fn files_are_formatted_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let put = |name: &str, text: &[u8]| std::fs::write(path(name), text).unwrap();
    let has = |name: &str| std::fs::read(path(name)).unwrap();
    put("a.click", b"a::Null;");
    put("b.click", b"b -> ;");
    put("c.click", b"c :: Null(\xff);");
    put("secret", b"d::Null;");
    std::fs::set_permissions(path("secret"), std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("secret", path("d.click")).unwrap();
    let all = ["a.click", "b.click", "c.click", "d.click"].map(path);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let checked = junctor(&[&["fmt", "--check"], &all[..1]].concat(), "");
    assert_eq!((checked.status.code(), has("a.click")), (Some(1), b"a::Null;".to_vec()));
    let formatted = junctor(&[&["fmt"], &all[..]].concat(), "");
    let said = String::from_utf8_lossy(&formatted.stderr).into_owned();
    assert!(said.contains("b.click:1:6") && said.contains("byte 10 is not UTF-8"), "{said}");
    assert_eq!(formatted.status.code(), Some(2));
    assert_eq!(has("a.click"), b"a :: Null;\n");
    assert_eq!((has("b.click"), has("c.click")), (b"b -> ;".to_vec(), b"c :: Null(\xff);".to_vec()));
    let mode = std::fs::metadata(path("secret")).unwrap().permissions().mode() & 0o777;
    assert_eq!((has("secret"), mode), (b"d :: Null;\n".to_vec(), 0o600));
    assert!(Path::new(&path("d.click")).is_symlink());
    assert_eq!(junctor(&["fmt", "--check", &path("a.click"), &path("d.click")], "").status.code(), Some(0));
}

fn frame(message: &Value) -> String {
    let text = message.to_string();
    format!("Content-Length: {}\r\n\r\n{text}", text.len())
}

#[test]
fn an_editor_is_served_on_standard_input_and_output() {
    let uri = "file:///no-such-project/a.click";
    let open = json!({ "uri": uri, "languageId": "click", "version": 1, "text": "Idle -> Discrad;" });
    let request = |id: u32, method: &str, parameters: Value| {
        frame(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }))
    };
    let notify = |method: &str, parameters: Value| {
        frame(&json!({ "jsonrpc": "2.0", "method": method, "params": parameters }))
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_junctor"));
    command.arg("lsp").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the program runs");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut receive = || {
        let mut header = String::new();
        output.read_line(&mut header).expect("a header");
        let length = header.trim().strip_prefix("Content-Length: ").and_then(|n| n.parse().ok());
        output.read_line(&mut header).expect("an empty line");
        let mut body = vec![0; length.unwrap_or_else(|| panic!("{header:?}"))];
        output.read_exact(&mut body).expect("a body");
        serde_json::from_slice::<Value>(&body).expect("JSON")
    };
    let mut send = |text: String| input.write_all(text.as_bytes()).expect("it reads");
    send(request(1, "initialize", json!({ "capabilities": {} })));
    let answer = receive();
    assert_eq!((&answer["id"], &answer["result"]["serverInfo"]["name"]), (&json!(1), &json!("junctor")));
    send(notify("initialized", json!({})) + &notify("textDocument/didOpen", json!({ "textDocument": open })));
    let found = receive();
    assert_eq!(found["method"], "textDocument/publishDiagnostics");
    assert!(found["params"]["diagnostics"][0]["message"].to_string().contains("Discrad"), "{found}");
    let place = json!({ "textDocument": { "uri": uri }, "position": { "line": 0, "character": 1 } });
    send(request(2, "textDocument/hover", place));
    assert!(receive()["result"]["contents"]["value"].to_string().contains("# Idle"));
    send(request(3, "nobody/knows", json!({})));
    assert_eq!(receive()["error"]["code"], -32601);
    send(request(4, "shutdown", Value::Null));
    assert_eq!(receive()["id"], 4);
    send(notify("exit", Value::Null));
    drop(input);
    assert!(child.wait().expect("it ends").success());
}

/// The lines for `init.lua` of the page for Neovim: for new versions, and for older ones.
fn neovim_settings(is_new: bool) -> String {
    let page = include_str!("../../../editors/neovim.md");
    let blocks: Vec<&str> =
        page.split("```lua\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    blocks[usize::from(!is_new)].to_owned()
}

#[test]
fn neovim_uses_the_server() {
    let Ok(version) = Command::new("nvim").arg("--version").output() else {
        eprintln!("neovim_uses_the_server: skipped: nvim is not here");
        return;
    };
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok()).unwrap_or(0);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("init.lua"), neovim_settings(minor >= 11)).unwrap();
    std::fs::write(path("a.click"), "Idle -> Discrad;\n").unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_junctor")).parent().unwrap().display().to_string();
    let search = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let script = concat!("luafile ", env!("CARGO_MANIFEST_DIR"), "/tests/neovim.lua");
    let done = Command::new("nvim")
        .args(["--headless", "-u", "init.lua", "-c", script, "a.click"])
        .current_dir(folder.path())
        .env("PATH", search)
        .envs(
            ["HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].map(|name| (name, folder.path())),
        )
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let said: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out} {err}"));
    assert_eq!(said["filetype"], "click", "{said}");
    assert_eq!((&said["problem"][0], &said["problem"][1]), (&json!(0), &json!(8)), "{said}");
    assert!(said["problem"][2].to_string().contains("Discrad"), "{said}");
    assert!(said["hover"].to_string().contains("# Discard"), "{said}");
    assert_eq!(said["definition"], json!([0, 25]));
    let offered = said["completion"].as_array().unwrap();
    assert!(offered.contains(&json!("q")) && !offered.contains(&json!("o")), "{said}");
    let renamed = "elementclass Outer {$n|->store::Queue($n)->Unqueue->}\no::Outer(5);\nIdle->o->Discard;\nScript(read o/store.length);";
    assert_eq!(said["renamed"], renamed);
    let formatted = "elementclass Outer { $n | -> store :: Queue($n) -> Unqueue -> }\no :: Outer(5);\nIdle -> o -> Discard;\nScript(read o/store.length);";
    assert_eq!(said["formatted"].as_str().unwrap().trim_end(), formatted);
}
