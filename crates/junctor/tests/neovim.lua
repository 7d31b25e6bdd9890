-- SPDX-License-Identifier: MIT OR Apache-2.0
-- Uses the language server as a person would by Neovim's client, and prints what came of it as a line of JSON. The file is open already.

local patience_ms = 60000

--- Waits until a function says something.
local function wait(what, run)
    local found
    local in_time = vim.wait(patience_ms, function()
        found = run()
        return found
    end, 20)
    assert(in_time, what)
    return found
end

--- The answer to a request about a place: a line and a column from 0 on.
local function ask(method, line, column, more)
    local parameters = vim.tbl_extend("force", {
        textDocument = vim.lsp.util.make_text_document_params(),
        position = { line = line, character = column },
    }, more or {})
    local answers, why = vim.lsp.buf_request_sync(0, "textDocument/" .. method, parameters, patience_ms)
    assert(answers, why)
    local _, answer = next(answers)
    return answer.result
end

local function text()
    return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")
end

local function put(lines)
    vim.api.nvim_buf_set_lines(0, 0, -1, false, lines)
end

local function run()
    local said = { filetype = vim.bo.filetype }
    wait("the client is attached", function() return next(vim.lsp.buf_get_clients(0)) end)
    local problem = wait("a problem", function() return vim.diagnostic.get(0)[1] end)
    said.problem = { problem.lnum, problem.col, problem.message }
    put({ "elementclass Outer {$n|->q::Queue($n)->Unqueue->}", "o::Outer(5);", "Idle->o->Discard;", "Script(read o/q.length);" })
    wait("no problem", function() return #vim.diagnostic.get(0) == 0 end)
    said.hover = ask("hover", 2, 9).contents.value
    local found = ask("definition", 3, 14)
    said.definition = { found.range.start.line, found.range.start.character }
    said.completion = vim.tbl_map(function(item) return item.label end, ask("completion", 3, 14).items)
    -- The edits are made by the editor, as its own commands do.
    vim.lsp.util.apply_workspace_edit(ask("rename", 0, 26, { newName = "store" }), "utf-16")
    said.renamed = text()
    vim.lsp.util.apply_text_edits(ask("formatting", 0, 0, { options = { tabSize = 4, insertSpaces = true } }), 0, "utf-16")
    said.formatted = text()
    return said
end

local is_done, said = pcall(run)
io.stdout:write(vim.json and vim.json.encode(is_done and said or { failed = tostring(said) }) or vim.fn.json_encode(said), "\n")
vim.cmd("qa!")
