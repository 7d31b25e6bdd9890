// SPDX-License-Identifier: MIT OR Apache-2.0
//! The web page: files of the folder `web`, which are part of the program. They hold no secret, so they are served without a token; what they show
//! comes from the API, which asks for one.

use std::sync::LazyLock;

use axum::body::Body;
use axum::http::header::{self, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::Response;

/// What the page's own scripts may do: fetch from here, and nothing else.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'none'; \
                          base-uri 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file: its path, type and content.
type File = (&'static str, &'static str, &'static [u8]);

macro_rules! files {
    ($($name:literal $kind:expr),+ $(,)?) => {
        &[$((concat!("/", $name), $kind, include_bytes!(concat!("../../../web/", $name)).as_slice())),+]
    };
}

const FILES: &[File] = files![
    "index.html" HTML,
    "style.css" CSS,
    "icon.svg" SVG,
    "main.js" SCRIPT,
    "api.js" SCRIPT,
    "assist.js" SCRIPT,
    "diff.js" SCRIPT,
    "dom.js" SCRIPT,
    "draw.js" SCRIPT,
    "editor.js" SCRIPT,
    "plot.js" SCRIPT,
    "timeline.js" SCRIPT,
    "views/capture.js" SCRIPT,
    "views/configuration.js" SCRIPT,
    "views/drops.js" SCRIPT,
    "views/firewall.js" SCRIPT,
    "views/graph.js" SCRIPT,
    "views/inspector.js" SCRIPT,
    "views/jobs.js" SCRIPT,
    "views/overview.js" SCRIPT,
    "views/ports.js" SCRIPT,
    "views/profile.js" SCRIPT,
    "views/routes.js" SCRIPT,
    "views/sessions.js" SCRIPT,
    "views/tests.js" SCRIPT,
    "views/trace.js" SCRIPT,
];

macro_rules! viewer {
    ($($name:literal $kind:expr),+ $(,)?) => {
        &[$((
            concat!("/timeline/", $name),
            $kind,
            include_bytes!(concat!("../../profile/src/export/html/", $name)).as_slice(),
        )),+]
    };
}

/// The profiler's viewer, which exported recordings have in them.
const VIEWER: &[File] =
    viewer!["viewer.css" CSS, "data.js" SCRIPT, "draw.js" SCRIPT, "panels.js" SCRIPT, "viewer.js" SCRIPT];

/// The viewer's page without a recording: `timeline.js` fetches one. Its scripts and styles are files, as the policy asks.
static TIMELINE: LazyLock<String> = LazyLock::new(|| {
    let page = include_str!("../../profile/src/export/html/page.html");
    let scripts: String = ["/timeline.js"]
        .into_iter()
        .chain(VIEWER.iter().filter(|(_, kind, _)| *kind == SCRIPT).map(|(name, ..)| *name))
        .map(|name| format!("<script src=\"{}\"></script>\n", &name[1..]))
        .collect();
    let page: String =
        page.split_inclusive('\n').filter(|line| !line.contains("Content-Security-Policy")).collect();
    page.replace("<style>\n/*style*/</style>", "<link rel=\"stylesheet\" href=\"timeline/viewer.css\">")
        .replace("/*data*/", "")
        .replace("<script>\n\"use strict\";\n/*script*/</script>\n", &scripts)
});

/// The file of the page that a request asks for, if it asks for one.
pub(crate) fn file(method: &Method, path: &str) -> Option<Response> {
    let path = if path == "/" { "/index.html" } else { path };
    let timeline = ("/timeline.html", HTML, TIMELINE.as_bytes());
    let (_, kind, content) =
        FILES.iter().chain(VIEWER).chain([&timeline]).find(|(name, ..)| *name == path)?;
    let body = match *method {
        Method::GET => Body::from(*content),
        Method::HEAD => Body::empty(),
        _ => return None,
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Some(response)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn files_below(directory: &Path, prefix: &str, into: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()) {
            let name = format!("{prefix}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().unwrap().is_dir() {
                files_below(&entry.path(), &name, into);
            } else {
                into.insert(name);
            }
        }
    }

    #[test]
    fn the_viewer_is_served_in_files_that_the_policy_allows() {
        assert!(!TIMELINE.contains("/*") && !TIMELINE.contains("<style"), "{}", *TIMELINE);
        let named = |mark: &str| -> Vec<String> {
            let parts = TIMELINE.split(mark).skip(1);
            parts.map(|part| format!("/{}", part.split('"').next().unwrap())).collect()
        };
        let files = [named("<script src=\""), named("stylesheet\" href=\"")].concat();
        assert_eq!(files.len(), VIEWER.len() + 1);
        assert!(files.iter().all(|name| file(&Method::GET, name).is_some()), "{files:?}");
        // What else is a script holds data.
        assert_eq!(TIMELINE.matches("<script").count(), files.len());
        assert!(TIMELINE.contains("<script type=\"text/plain\" id=\"data\"></script>"));
        assert!(file(&Method::GET, "/timeline.html").is_some());
    }

    #[test]
    fn the_whole_folder_is_served_and_fetches_nothing_from_elsewhere() {
        let mut found = BTreeSet::new();
        files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web"), "", &mut found);
        assert_eq!(found, FILES.iter().map(|(name, ..)| (*name).to_owned()).collect());
        for (name, _, content) in FILES {
            let text = String::from_utf8_lossy(content);
            let outside = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!outside.contains("http:") && !outside.contains("https:"), "{name}");
            assert!(!text.contains("innerHTML") && !text.contains("eval("), "{name}");
            // Modules name others by relative paths that are there.
            for part in text.split("from \"").skip(1) {
                let named = part.split('"').next().unwrap();
                let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
                let path = match named.strip_prefix("../") {
                    Some(above) => format!("/{above}"),
                    None => format!("{folder}/{}", named.trim_start_matches("./")),
                };
                assert!(file(&Method::GET, &path).is_some(), "{name} imports {named}");
            }
        }
        assert!(file(&Method::GET, "/").is_some() && file(&Method::HEAD, "/style.css").is_some());
        assert!(file(&Method::POST, "/").is_none() && file(&Method::GET, "/../Cargo.toml").is_none());
    }
}
