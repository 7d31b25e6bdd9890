// SPDX-License-Identifier: MIT OR Apache-2.0
use std::sync::Mutex;

use proptest::prelude::*;
use serde_json::json;
use tokio::runtime::Runtime;

use super::*;
use crate::access::{Access, new_token};
use crate::audit::Audit;
use crate::fake::Fake;
use crate::limits::Rates;
use crate::route::Role;
use crate::schema::tests::misfits;
use crate::shared::Parts;

/// A service over routers that are not there, and what its audit log has.
struct Rig {
    app: App,
    runtime: Runtime,
    log: Log,
    tokens: Vec<(Role, String)>,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Rig {
    fn new() -> Rig {
        let made = Role::ALL.map(|role| (role, new_token(role.name(), role).unwrap()));
        let file: String = made.iter().map(|(_, (_, line))| format!("{line}\n")).collect();
        let access = Access::new(&file, 1000, Role::Viewer, None).unwrap();
        let log = Log::default();
        let parts = Parts {
            routers: Arc::new(Fake::default()),
            access,
            audit: Audit::new(log.clone()),
            hosts: Vec::new(),
            has_open_metrics: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let tokens = made.map(|(role, (token, _))| (role, token)).into();
        Rig { app: App::new(Shared::new(parts)), runtime, log, tokens }
    }

    /// The user of the Unix socket that may do everything. Each test has an address of its own for limits.
    fn owner() -> Peer {
        Peer { uid: Some(1000), ..Peer::default() }
    }

    fn send(&self, peer: &Peer, request: Request) -> (u16, HeaderMap, Vec<u8>) {
        self.runtime.block_on(async {
            let response = self.app.answer(peer, request).await.unwrap();
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            (status, headers, bytes.to_vec())
        })
    }

    fn forget_clients(&self) {
        *self.app.shared.rates() = Rates::default();
    }

    /// A request of the owner; returns status and JSON.
    fn ask(&self, verb: &str, path: &str, body: &Value) -> (u16, Value) {
        self.forget_clients();
        let (status, _, bytes) = self.send(&Rig::owner(), request(verb, path, body));
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    fn get(&self, path: &str) -> Value {
        let (status, value) = self.ask("GET", path, &Value::Null);
        assert_eq!(status, 200, "{path}: {value}");
        value
    }
}

fn request(verb: &str, path: &str, body: &Value) -> Request {
    let builder = Request::builder().method(verb).uri(path).header("host", "localhost");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    builder.header("content-type", "application/json").body(Body::from(body)).unwrap()
}

/// A path of a route for the fake router.
fn path_of(route: &Route) -> String {
    let parts = [
        ("{router}", "r1"),
        ("{element}", "q"),
        ("{handler}", "c.count"),
        ("{job}", "0"),
        ("{service}", "edge"),
        ("{commit}", "2"),
    ];
    parts
        .iter()
        .fold(route.path.to_owned(), |path, (name, value)| path.replace(name, value))
        .replace("control-plane/handlers/c.count", "control-plane/handlers/status")
}

#[test]
fn answers_are_as_described() {
    let rig = Rig::new();
    for route in resources::all() {
        let is_read = route.method == Method::Get && matches!(route.run, Run::Blocking(_));
        if !is_read
            || route.path == "/metrics"
            || route.path.contains("/jobs/")
            || route.path.contains("/balance/")
        {
            continue;
        }
        let several = match route.path {
            path if path.ends_with("/sessions") => "?element=fw",
            path if path.ends_with("/file") => "?path=router.click",
            _ => "",
        };
        let value = rig.get(&(path_of(route) + several));
        let found = misfits(&(route.answer.1)(), &value, route.path);
        assert!(found.is_empty(), "{found:?} in {value}");
    }
}

#[test]
fn resources_show_what_the_router_says() {
    let rig = Rig::new();
    assert_eq!(rig.get("/api/v1/routers")["routers"][1]["name"], "r2");
    let elements = rig.get("/api/v1/routers/r1/elements?filter=counter");
    assert_eq!((&elements["count"], &elements["elements"][0]["packets_per_s"]), (&json!(1), &json!(100.0)));
    assert_eq!(rig.get("/api/v1/routers/r1/elements?limit=1")["next"], 1);
    assert_eq!(rig.get("/api/v1/routers/r1/elements/c%220")["class"], "Counter");
    assert_eq!(rig.get("/api/v1/routers/r1/handlers/c.count")["value"], "117\n");
    assert_eq!(
        rig.get("/api/v1/routers/r1/elements/q/handlers")["handlers"][3],
        json!({ "name": "reset", "read": false, "write": true })
    );
    assert_eq!(
        rig.get("/api/v1/routers/r1/drops?reason=no-route")["drops"],
        json!([{ "reason": "no-route", "packets": 2, "elements": [{ "element": "c", "packets": 2 }] }])
    );
    assert_eq!(rig.get("/api/v1/routers/r1/queues")["queues"][0]["length"], 4);
    assert_eq!(rig.get("/api/v1/routers/r1/workers")["workers"][0]["busy_share"], 0.25);
    assert_eq!(rig.get("/api/v1/routes?prefix=192.0.0.0/16")["routes"][0]["feed"], "fpm");
    let page = rig.get("/api/v1/routes?limit=1&cursor=1");
    assert_eq!(
        (&page["count"], &page["next"], &page["routes"][0]["prefix"]),
        (&json!(1), &json!("2"), &json!("192.0.2.0/24"))
    );
    let page = rig.get("/api/v1/routes?feed=fpm");
    assert_eq!((&page["count"], &page["next"]), (&json!(2), &Value::Null));
    assert_eq!(rig.get("/api/v1/control-plane/handlers/status")["value"], "{\"routes\":3}");
    // Lists of any length come in pages only.
    for whole in ["routes", "multicast"] {
        assert_eq!(rig.ask("GET", &format!("/api/v1/control-plane/handlers/{whole}"), &Value::Null).0, 404);
    }
    let page = rig.get("/api/v1/routes/multicast?limit=1");
    assert_eq!(
        (&page["count"], &page["next"], &page["entries"][0]["group"]),
        (&json!(1), &json!("0,239.0.0.1,*"), &json!("239.0.0.1"))
    );
    let page = rig.get("/api/v1/routes/multicast?cursor=0,239.0.0.1,*");
    assert_eq!((&page["next"], &page["entries"][0]["group"]), (&Value::Null, &json!("239.0.0.2")));
    assert_eq!(rig.get("/api/v1/routes?address=192.0.2.1")["count"], 1);
    assert_eq!(rig.get("/api/v1/routes?address=::1")["count"], 0);
    assert_eq!(rig.get("/api/v1/routers/r1/firewall/rules")["rules"][1]["line"], Value::Null);
    let page = rig.get("/api/v1/routers/r1/sessions?element=fw&limit=1");
    assert_eq!((&page["next"], page["sessions"].as_array().unwrap().len()), (&json!("next"), 2));
    let page = rig.get("/api/v1/routers/r1/sessions?element=fw&limit=1&cursor=next");
    assert_eq!((&page["next"], page["sessions"].as_array().unwrap().len()), (&Value::Null, 1));
    assert_eq!(rig.get("/api/v1/routers/r1/sessions?element=fw&address=10.9.0.0/16")["sessions"], json!([]));
    let graph = rig.get("/api/v1/routers/r1/graph");
    let edge = |from: &str| {
        graph["edges"].as_array().unwrap().iter().find(|edge| edge["from"] == from).unwrap().clone()
    };
    assert_eq!((&edge("q")["hand_off"], &edge("q")["packets_per_s"]), (&json!(true), &json!(100.0)));
    assert_eq!((&edge("src")["packets_per_s"], &edge("src")["hand_off"]), (&json!(100.0), &json!(false)));
    assert!(graph["elements"].as_array().unwrap().iter().all(|element| element["x"].is_number()));
    // The same load, without places, and without those that are idle.
    let loads = rig.get("/api/v1/routers/r1/graph/loads");
    let all = loads["elements"].as_array().unwrap();
    assert_eq!(all.iter().map(|one| &one["name"]).collect::<Vec<_>>(), ["c\"0", "q", "src"], "{loads}");
    let worker = |number: u64, received: f64, sent: f64| json!({ "worker": number, "received_per_s": received, "packets_per_s": sent, "busy_share": 0.0 });
    assert_eq!(all[1]["workers"], json!([worker(0, 100.0, 0.0), worker(1, 0.0, 100.0)]));
    assert_eq!((&all[1]["outputs"], &all[1]["hand_off"]), (&json!([100.0]), &json!(true)));
}

#[test]
fn operators_write() {
    let rig = Rig::new();
    let put = |path: &str, body: Value| rig.ask("PUT", path, &body);
    assert_eq!(put("/api/v1/routers/r1/handlers/c.reset", json!({ "value": "x\r\nWRITE stop" })).0, 200);
    for own in ["stop", ".stop", "0.stop", "0..stop", "..stop"] {
        assert_eq!(
            put(&format!("/api/v1/routers/r1/handlers/{own}"), json!({ "value": "" })).0,
            400,
            "{own}"
        );
    }
    assert_eq!(put("/api/v1/routers/r1/control/stop", json!({ "value": "" })).0, 200);
    let (status, problem) = put("/api/v1/routers/r1/handlers/q.length", json!({ "value": "1" }));
    assert_eq!((status, &problem["type"]), (422, &json!("urn:junctor:problem:refused")));
    assert_eq!(put("/api/v1/routers/r1/handlers/c.reset", json!({ "walue": "1" })).1["where"], "body: walue");
    let (status, ended) = rig.ask(
        "POST",
        "/api/v1/routers/r1/sessions/end",
        &json!({ "address": "10.0.1.2", "element": "fw" }),
    );
    assert_eq!((status, &ended["ended"], &ended["more"]), (200, &json!(3), &json!(false)));
    // A line of the audit log for each, with the path and the user.
    let log = String::from_utf8(rig.log.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 10, "{log}");
    assert_eq!(
        (&lines[1]["who"], &lines[1]["status"], &lines[1]["path"]),
        (&json!("uid 1000"), &json!(400), &json!("/api/v1/routers/r1/handlers/stop"))
    );
}

#[test]
fn long_work_is_a_job() {
    let rig = Rig::new();
    let begin = |path: &str, body: Value| {
        let (status, job) = rig.ask("POST", path, &body);
        assert_eq!(status, 202, "{job}");
        rig.app.shared.jobs.wait(job["id"].as_u64().unwrap(), Duration::from_secs(60));
        let id = job["id"].to_string();
        let job = rig.get(&format!("/api/v1/jobs/{id}"));
        assert!(
            misfits(
                &(resources::all().find(|r| r.path == "/api/v1/jobs/{job}").unwrap().answer.1)(),
                &job,
                "job"
            )
            .is_empty()
        );
        rig.forget_clients();
        let (status, headers, bytes) =
            rig.send(&Rig::owner(), request("GET", &format!("/api/v1/jobs/{id}/result"), &Value::Null));
        (job, status, headers.get("content-disposition").cloned(), String::from_utf8(bytes).unwrap())
    };
    // The fake's command prints its words: what users wrote is never an option.
    let (_, status, name, words) =
        begin("/api/v1/routers/r1/traces", json!({ "filter": "--socket=/etc/passwd", "count": 3 }));
    assert_eq!((status, name.unwrap().to_str().unwrap()), (200, "attachment; filename=\"trace-0.jsonl\""));
    assert_eq!(words, "trace\n--json\n--time=10s\n--count=3\n--\n--socket=/etc/passwd\n");
    let (_, _, _, words) =
        begin("/api/v1/routers/r1/traces", json!({ "packet": "ip 10.0.0.1 to 10.0.1.9", "at": "rt" }));
    assert_eq!(words, "trace\n--json\n--at=rt\n--packet=ip 10.0.0.1 to 10.0.1.9\n--\n");
    // Without the file that it should write, there is nothing to download.
    let (job, status, ..) =
        begin("/api/v1/routers/r1/captures", json!({ "points": ["q:0"], "filter": "-w x" }));
    assert_eq!((&job["kind"], status), (&json!("capture"), 404));
    let (_, _, _, words) =
        begin("/api/v1/tests", json!({ "procedure": "mlr", "device": "cable", "options": ["--size=64"] }));
    assert_eq!(words, "test\nmlr\n--json\n--verbose\n--size=64\n--\ncable\n");
    let (recording, ..) = begin("/api/v1/routers/r1/recordings", json!({ "time_s": 1 }));
    let views = format!("/api/v1/jobs/{}/views", recording["id"]);
    let (view, _, name, words) = begin(&views, json!({ "view": "timeline" }));
    assert!(
        words.starts_with("profile\nexport\n--format=html\n--\n/") && words.ends_with("/run.prof\n"),
        "{words}"
    );
    assert_eq!(name.unwrap().to_str().unwrap(), format!("attachment; filename=\"view-{}.html\"", view["id"]));
    assert_eq!(rig.ask("POST", "/api/v1/jobs/0/views", &json!({ "view": "report" })).0, 409);
    assert_eq!(rig.ask("POST", &views, &json!({ "view": "--output=x" })).0, 400);
    assert_eq!(rig.get("/api/v1/jobs/0/messages?from=0"), json!({ "text": "", "next": 0 }));
    for (path, body) in [
        ("/api/v1/tests", json!({ "procedure": "start-device", "device": "cable" })),
        ("/api/v1/tests", json!({ "procedure": "mlr", "device": "command:reboot" })),
        (
            "/api/v1/tests",
            json!({ "procedure": "mlr", "device": "cable", "options": ["--output=/etc/passwd"] }),
        ),
        ("/api/v1/routers/r1/captures", json!({})),
        ("/api/v1/routers/r1/captures", json!({ "points": ["a b"] })),
        ("/api/v1/routers/r1/captures", json!({ "points": ["a"], "time_s": 100_000 })),
        ("/api/v1/routers/r1/traces", json!({ "hex": "00", "packet": "ip" })),
        ("/api/v1/routers/r1/traces", json!({ "format": "xml" })),
        ("/api/v1/routers/r1/recordings", json!({ "until": "drop x" })),
    ] {
        assert_eq!(rig.ask("POST", path, &body).0, 400, "{path} {body}");
    }
    assert_eq!(rig.ask("DELETE", "/api/v1/jobs/0", &Value::Null).0, 200);
    assert_eq!(rig.ask("GET", "/api/v1/jobs/0", &Value::Null).0, 404);
    assert_eq!(rig.ask("POST", "/api/v1/routers/r2/traces", &json!({})).0, 404);
}

/// What is asked about saved configurations becomes a command, in which nothing that users wrote is an option.
#[test]
fn saved_configurations_are_asked_by_commands() {
    let rig = Rig::new();
    let begin = |path: &str, body: Value| {
        let (status, job) = rig.ask("POST", &format!("/api/v1/config/edge/{path}"), &body);
        assert_eq!(status, 202, "{job}");
        let id = job["id"].as_u64().unwrap();
        rig.app.shared.jobs.wait(id, Duration::from_secs(60));
        rig.forget_clients();
        let (_, _, bytes) =
            rig.send(&Rig::owner(), request("GET", &format!("/api/v1/jobs/{id}/result"), &Value::Null));
        String::from_utf8(bytes).unwrap()
    };
    let place = "--name=edge\n--etc=/e\n--state=/s\n--run=/r\n";
    let body = json!({ "comment": "--force", "confirm_within_s": 60, "parent": 7 });
    assert_eq!(
        begin("apply", body),
        format!("config\napply\n{place}--comment=--force\n--confirm-within=60s\n--json\n--parent=7\n--\n")
    );
    let body = json!({ "commit": 4, "format": "text" });
    assert_eq!(begin("rollback", body), format!("config\nrollback\n{place}--\n4\n"));
    let shown = rig.get("/api/v1/config/edge/commits/2/file?path=--etc");
    assert_eq!(shown["text"], format!("config\nshow\n{place}--\n2\n--etc\n"));
    assert_eq!(rig.get("/api/v1/config/edge/diff?from=1&to=2")["from"], 1);
    assert_eq!(rig.ask("POST", "/api/v1/config/edge/check", &Value::Null).1["sound"], true);
    for (path, status) in [
        ("none/history", 404),
        ("edge/commits/x", 400),
        ("edge/commits/2/file", 400),
        ("edge/diff?to=2", 400),
        ("edge/history?format=xml", 400),
    ] {
        assert_eq!(rig.ask("GET", &format!("/api/v1/config/{path}"), &Value::Null).0, status, "{path}");
    }
    for body in [json!({ "force": 1 }), json!({ "comment": "x".repeat(2000) }), json!({ "etc": "/" })] {
        assert_eq!(rig.ask("POST", "/api/v1/config/edge/apply", &body).0, 400, "{body}");
    }
}

/// A value that names a file or a handler is written by an administrator alone.
#[test]
fn operators_name_neither_files_nor_handlers() {
    let rig = Rig::new();
    let put = |role: Role, handler: &str, value: &str| {
        rig.forget_clients();
        let path = format!("/api/v1/routers/r1/handlers/{handler}");
        let mut asked = request("PUT", &path, &json!({ "value": value }));
        let token = &rig.tokens.iter().find(|(of, _)| *of == role).unwrap().1;
        asked.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        rig.send(&Peer { address: "192.0.2.1".into(), ..Peer::default() }, asked).0
    };
    for (handler, value) in [
        ("fw.load", "/etc/shadow"),
        ("fw.set_load", "bad /etc/shadow"),
        ("a%2Ffw.load", " x"),
        ("c.count_call", "1 stop"),
    ] {
        assert_eq!(put(Role::Operator, handler, value), 403, "{handler}");
    }
    assert_eq!(put(Role::Operator, "fw.load", ""), 200);
    assert_eq!(put(Role::Admin, "fw.load", "/etc/junctor/fw"), 200);
    assert_eq!(put(Role::Operator, "fw.end", "all"), 200);
}

/// Each route with each role: who has less than the table asks for is refused, before anything is done.
#[test]
fn roles_are_those_of_the_table() {
    let rig = Rig::new();
    for route in resources::all() {
        for (role, token) in &rig.tokens {
            rig.forget_clients();
            let mut asked =
                request(&route.method.name().to_uppercase(), &path_of(route), &json!({ "nonsense": 1 }));
            asked.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
            if *role >= route.role {
                // Of those that may, it is enough that the role is not the reason; what would act gets nonsense.
                if route.body.is_none() {
                    continue;
                }
                let (status, ..) = rig.send(&Peer { address: "192.0.2.1".into(), ..Peer::default() }, asked);
                assert_eq!(status, 400, "{} {}", route.path, role.name());
            } else {
                let (status, _, bytes) =
                    rig.send(&Peer { address: "192.0.2.1".into(), ..Peer::default() }, asked);
                assert_eq!(status, 403, "{} {}", route.path, role.name());
                let problem: Value = serde_json::from_slice(&bytes).unwrap();
                assert_eq!(problem["type"], "urn:junctor:problem:forbidden");
            }
        }
        // Nobody gets anything without a token at any path.
        rig.forget_clients();
        let asked = request(&route.method.name().to_uppercase(), &path_of(route), &Value::Null);
        let (status, headers, _) = rig.send(&Peer { address: "192.0.2.1".into(), ..Peer::default() }, asked);
        assert_eq!(
            (status, headers["www-authenticate"].to_str().unwrap()),
            (401, "Bearer"),
            "{}",
            route.path
        );
    }
    let log = String::from_utf8(rig.log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("\"status\":401") && log.contains("\"status\":403"));
    assert!(rig.tokens.iter().all(|(_, token)| !log.contains(token)), "the audit log has no token");
}

#[test]
fn wrong_requests_say_what_where_and_how_to_fix_it() {
    let rig = Rig::new();
    for (verb, path, body, status, place) in [
        ("GET", "/api/v1/none", Value::Null, 404, "path"),
        ("GET", "/../../etc/passwd", Value::Null, 404, "path"),
        ("GET", "/api/v1/routers/..%2F..%2Fetc/drops", Value::Null, 404, ""),
        ("GET", "/api/v1/routers/none/drops", Value::Null, 404, ""),
        ("PATCH", "/api/v1/routers", Value::Null, 405, "method"),
        ("DELETE", "/api/v1/routers", Value::Null, 405, "method"),
        ("GET", "/api/v1/routers?x=1", Value::Null, 400, "query: x"),
        ("GET", "/api/v1/routers/r1/elements?limit=1&limit=2", Value::Null, 400, "query: limit"),
        ("GET", "/api/v1/routers/r1/elements?limit=-1", Value::Null, 400, "query: limit"),
        ("GET", "/api/v1/routers/r1/elements?limit=99999999999999999999", Value::Null, 400, "query: limit"),
        ("GET", "/api/v1/routers/r1/drops?reason=none", Value::Null, 404, "query: reason"),
        ("GET", "/api/v1/routers/r1/handlers/a%0d%0aWRITE%20stop", Value::Null, 400, "path: handler"),
        ("GET", "/api/v1/routers/r1/handlers/%ff", Value::Null, 400, "path"),
        (
            "GET",
            "/api/v1/routers/r1/sessions?element=fw&cursor=0%0d%0aWRITE+stop",
            Value::Null,
            400,
            "query: cursor",
        ),
        ("GET", "/api/v1/routes?vrf=a%20b", Value::Null, 400, "query: vrf"),
        ("GET", "/api/v1/routes?prefix=10.0.0.0/99", Value::Null, 400, "query: prefix"),
        ("GET", "/api/v1/jobs/x", Value::Null, 404, ""),
        ("PUT", "/api/v1/routers/r1/handlers/c.count", json!([]), 400, "body"),
        ("PUT", "/api/v1/routers/r1/handlers/c.count", json!({ "value": 1 }), 400, "body: value"),
        ("POST", "/api/v1/configurations/check", json!({}), 400, "body: text"),
    ] {
        let (found, problem) = rig.ask(verb, path, &body);
        assert_eq!(
            (found, problem["where"].as_str().unwrap_or_default()),
            (status, place),
            "{verb} {path}: {problem}"
        );
        let is_whole = ["type", "title", "detail", "fix"]
            .iter()
            .all(|key| problem[key].as_str().is_some_and(|text| !text.is_empty()));
        assert!(is_whole && problem["status"] == status, "{path}: {problem}");
    }
    // Bodies that are of another type, or too large, or no JSON.
    let path = "/api/v1/routers/r1/handlers/c.count";
    for (media_type, body, status) in [
        ("text/plain", "{}".to_owned(), 415),
        ("application/x-www-form-urlencoded", "value=1".to_owned(), 415),
        ("application/json", "{".to_owned(), 400),
        ("application/json", "[".repeat(100_000), 400),
        ("application/json", format!("{{\"value\":[1{}]}}", ",1".repeat(100_000)), 400),
        ("application/json", format!("\"{}\"", "x".repeat(BODY)), 413),
    ] {
        let asked =
            Request::builder().method("PUT").uri(path).header("host", "x").header("content-type", media_type);
        let (found, headers, _) = rig.send(&Rig::owner(), asked.body(Body::from(body)).unwrap());
        assert_eq!(
            (found, &headers["content-type"]),
            (status, &HeaderValue::from_static("application/problem+json")),
            "{media_type}"
        );
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert!(!headers.contains_key("access-control-allow-origin"));
    }
}

/// Each value of a body costs many times the memory of its text. Commas in texts are no values.
#[test]
fn values_of_bodies_are_counted_before_they_are_parsed() {
    for (text, count) in [("", 1), ("1", 1), ("[1,2]", 3), (r#"{"a":"x,[{","b":[]}"#, 4), (r#"["\",",1]"#, 3)]
    {
        assert_eq!(values(text.as_bytes()), count, "{text}");
    }
    assert!(parse(format!("[1{}]", ",1".repeat(VALUES)).as_bytes()).unwrap_err().detail.contains("values"));
    let text = format!("{{\"text\":\"{}\"}}", "a, b, ".repeat(VALUES));
    assert!(parse(text.as_bytes()).is_ok());
}

#[test]
fn pages_of_other_origins_get_nothing() {
    let rig = Rig::new();
    for (name, value) in [("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")] {
        let mut asked = request("GET", "/api/v1/routers", &Value::Null);
        asked.headers_mut().insert(name, value.parse().unwrap());
        assert_eq!(rig.send(&Rig::owner(), asked).0, 403, "{name}");
    }
    let mut asked = request("GET", "/api/v1/routers", &Value::Null);
    asked.headers_mut().insert("host", "evil.example".parse().unwrap());
    assert_eq!(rig.send(&Peer { address: "192.0.2.1".into(), ..Peer::default() }, asked).0, 403);
}

#[test]
fn too_many_requests_are_refused_and_not_logged() {
    let rig = Rig::new();
    let peer = Peer { address: "192.0.2.1".into(), ..Peer::default() };
    let statuses: Vec<u16> =
        (0..300).map(|_| rig.send(&peer, request("GET", "/api/v1/routers", &Value::Null)).0).collect();
    let of = |status| statuses.iter().filter(|found| **found == status).count();
    assert!((9..40).contains(&of(401)) && of(401) + of(429) == 300, "{statuses:?}");
    let log = rig.log.0.lock().unwrap().clone();
    assert_eq!(log.iter().filter(|byte| **byte == b'\n').count(), of(401));
}

#[test]
fn live_values_are_sampled_once_and_end_with_the_router() {
    let rig = Rig::new();
    let (first, second) = rig.runtime.block_on(async {
        let open = || async {
            let response = rig
                .app
                .answer(&Rig::owner(), request("GET", "/api/v1/routers/r1/live", &Value::Null))
                .await
                .unwrap();
            assert_eq!(response.headers()["content-type"], "text/event-stream");
            response.into_body()
        };
        let (mut one, mut other) = (open().await, open().await);
        let a = one.frame().await.unwrap().unwrap().into_data().unwrap();
        let b = other.frame().await.unwrap().unwrap().into_data().unwrap();
        (a, b)
    });
    assert_eq!(first, second);
    let text = String::from_utf8(first.to_vec()).unwrap();
    let data = text.strip_prefix("event: rates\ndata: ").and_then(|text| text.strip_suffix("\n\n")).unwrap();
    let rates: Value = serde_json::from_str(data).unwrap();
    assert!(rates["elements"].is_array());
    // A router that publishes nothing ends the stream.
    let (status, _, bytes) = rig.send(&Rig::owner(), request("GET", "/api/v1/routers/r2/live", &Value::Null));
    assert_eq!(status, 200);
    assert!(String::from_utf8(bytes).unwrap().starts_with("event: end\n"));
    assert_eq!(rig.ask("GET", "/api/v1/routers/none/live", &Value::Null).0, 404);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    /// Any path, query and body of an administrator is answered, never by a failure of the service.
    #[test]
    fn any_request_is_answered(
        verb in prop::sample::select(vec!["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]),
        route in 0usize..45,
        part in "[a-z.%/]{0,12}",
        query in "[a-z=&%0-9.]{0,20}",
        body in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        thread_local!(static RIG: Rig = Rig::new());
        let routes: Vec<&Route> = resources::all().collect();
        let path = path_of(routes[route % routes.len()]).replacen("r1", &part, usize::from(part.len() % 2 == 0));
        // Streams do not end, and jobs would start processes.
        prop_assume!(!path.ends_with("/live") && verb != "POST");
        let Ok(uri) = format!("{path}?{query}").parse::<Uri>() else { return Ok(()) };
        let asked = Request::builder().method(verb).uri(uri).header("host", "x").header("content-type", "application/json");
        RIG.with(|rig| {
            rig.forget_clients();
            let (status, ..) = rig.send(&Rig::owner(), asked.body(Body::from(body)).unwrap());
            prop_assert!(status < 500 || status == 503, "{status} {path}?{query}");
            Ok(())
        })?;
    }
}
