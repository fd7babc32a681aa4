"use strict";
// Draws one mesh with per-vertex normal, albedo, confidence and error. The light stays with the camera: turning the
// object changes how the light falls on it, as it would on a turntable.
(async () => {
  const byId = (id) => document.getElementById(id);
  const view = byId("view"), pad = byId("pad"), message = byId("message");
  const data = JSON.parse(byId("data").textContent);
  const gl = view.getContext("webgl2", { antialias: true, preserveDrawingBuffer: true });
  if (!gl) {
    message.textContent = "This page draws with WebGL 2, which this browser does not offer.";
    return;
  }

  const state = { light: [0.35, 0.35], turn: [0, 0], zoom: 1, mode: 0, gloss: 0.25, ambient: 0.05, shot: -1, cut: null };

  // ---- data -------------------------------------------------------------------------------------------------------
  async function unpack(text, Type) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Type(await new Response(stream).arrayBuffer());
  }
  const a = data.arrays;
  const arrays = {
    positions: await unpack(a.positions, Int16Array), normals: await unpack(a.normals, Int16Array),
    colours: await unpack(a.colours, Uint8Array), confidence: await unpack(a.confidence, Uint8Array),
    error: await unpack(a.error, Uint8Array), faces: await unpack(a.faces, Uint32Array),
  };

  // ---- drawing ----------------------------------------------------------------------------------------------------
  const inferno = `vec3 inferno(float t) {
      const vec3 c0 = vec3(0.00022, 0.00165, -0.01948), c1 = vec3(0.10651, 0.56396, 3.93271),
        c2 = vec3(11.60249, -3.97285, -15.94239), c3 = vec3(-41.70400, 17.43640, 44.35415),
        c4 = vec3(77.16294, -33.40236, -81.80731), c5 = vec3(-71.31943, 32.62606, 73.20952),
        c6 = vec3(25.13113, -12.24267, -23.07033);
      return c0 + t * (c1 + t * (c2 + t * (c3 + t * (c4 + t * (c5 + t * c6)))));
    }`;
  const vertexShader = `#version 300 es
    in vec3 position; in vec3 normal; in vec3 colour; in float confidence; in float error;
    uniform mat3 turn; uniform vec2 fit;
    out vec3 n; out vec3 own; out vec3 albedo; out float sure; out float wrong;
    void main() {
      vec3 p = turn * position;
      gl_Position = vec4(p.xy * fit, -p.z * 0.5, 1.0);
      own = normal; n = turn * normal; albedo = colour; sure = confidence; wrong = error;
    }`;
  const fragmentShader = `#version 300 es
    precision highp float;
    in vec3 n; in vec3 own; in vec3 albedo; in float sure; in float wrong;
    uniform int mode; uniform vec3 light; uniform float gloss; uniform float ambient;
    out vec4 picture;
    ${inferno}
    vec3 encode(vec3 c) { c = clamp(c, 0.0, 1.0); return mix(12.92 * c, 1.055 * pow(c, vec3(1.0 / 2.4)) - 0.055, step(0.0031308, c)); }
    void main() {
      vec3 m = normalize(n);
      vec3 c = pow(albedo, vec3(2.2));
      if (!gl_FrontFacing) { picture = vec4(vec3(0.09), 1.0); return; }
      if (mode == 1) picture = vec4(normalize(own) * 0.5 + 0.5, 1.0);
      else if (mode == 2) picture = vec4(albedo, 1.0);
      else if (mode == 3) picture = vec4(vec3(sure), 1.0);
      else if (mode == 4) picture = vec4(inferno(wrong), 1.0);
      else {
        float facing = max(dot(m, light), 0.0);
        vec3 halfway = normalize(light + vec3(0.0, 0.0, 1.0));
        float shine = facing > 0.0 ? gloss * pow(max(dot(m, halfway), 0.0), 60.0) : 0.0;
        picture = vec4(encode(c * (ambient + 1.15 * facing) + shine), 1.0);
      }
    }`;
  function compile(kind, text) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
    return shader;
  }
  const program = gl.createProgram();
  gl.attachShader(program, compile(gl.VERTEX_SHADER, vertexShader));
  gl.attachShader(program, compile(gl.FRAGMENT_SHADER, fragmentShader));
  gl.linkProgram(program);
  gl.useProgram(program);
  function attribute(name, array, size, type) {
    const place = gl.getAttribLocation(program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, array, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, size, type, true, 0, 0);
  }
  attribute("position", arrays.positions, 3, gl.SHORT);
  attribute("normal", arrays.normals, 3, gl.SHORT);
  attribute("colour", arrays.colours, 3, gl.UNSIGNED_BYTE);
  attribute("confidence", arrays.confidence, 1, gl.UNSIGNED_BYTE);
  attribute("error", arrays.error, 1, gl.UNSIGNED_BYTE);
  gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, arrays.faces, gl.STATIC_DRAW);
  gl.enable(gl.DEPTH_TEST);
  gl.clearColor(0.082, 0.09, 0.102, 1);
  const uniform = (name) => gl.getUniformLocation(program, name);

  function lightDirection() {
    const [x, y] = state.light;
    return [x, y, Math.sqrt(Math.max(0, 1 - x * x - y * y))];
  }
  function turnMatrix() { // about y, then about x; columns first, as WebGL wants it
    const [u, v] = state.turn, [cu, su, cv, sv] = [Math.cos(u), Math.sin(u), Math.cos(v), Math.sin(v)];
    return [cu, sv * su, -cv * su, 0, cv, sv, su, -sv * cu, cv * cu];
  }
  let waiting = false;
  function draw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      const ratio = window.devicePixelRatio || 1;
      const width = Math.round(view.clientWidth * ratio), height = Math.round(view.clientHeight * ratio);
      if (view.width !== width || view.height !== height) { view.width = width; view.height = height; }
      gl.viewport(0, 0, width, height);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      const small = Math.min(width, height) * 0.92 * state.zoom;
      gl.uniform2f(uniform("fit"), small / width, small / height);
      gl.uniformMatrix3fv(uniform("turn"), false, turnMatrix());
      gl.uniform3fv(uniform("light"), lightDirection());
      gl.uniform1i(uniform("mode"), state.mode);
      gl.uniform1f(uniform("gloss"), state.gloss);
      gl.uniform1f(uniform("ambient"), state.ambient);
      gl.drawElements(gl.TRIANGLES, arrays.faces.length, gl.UNSIGNED_INT, 0);
      drawPad();
      drawCut(width, height, small / 2);
    });
  }
  function drawPad() {
    const c = pad.getContext("2d"), R = pad.width / 2, [x, y] = state.light;
    c.clearRect(0, 0, pad.width, pad.height);
    const ball = c.createRadialGradient(R + x * R * 0.8, R - y * R * 0.8, 2, R, R, R);
    ball.addColorStop(0, "#8d939a"); ball.addColorStop(1, "#2a2e33");
    c.fillStyle = ball;
    c.beginPath(); c.arc(R, R, R - 2, 0, 7); c.fill();
    c.strokeStyle = "#4a5058"; c.beginPath(); c.moveTo(R, 8); c.lineTo(R, 2 * R - 8); c.moveTo(8, R); c.lineTo(2 * R - 8, R); c.stroke();
    const spot = (v) => [R + v[0] * (R - 10), R - v[1] * (R - 10)];
    data.photographs.forEach((shot, i) => { // a line from where a light was said to be to where it was found
      const [u, v] = spot(shot.light);
      if (shot.before) {
        const [s, t] = spot(shot.before);
        c.strokeStyle = "#e8eaed"; c.beginPath(); c.moveTo(s, t); c.lineTo(u, v); c.stroke();
        c.beginPath(); c.arc(s, t, 2.5, 0, 7); c.stroke();
      }
      c.fillStyle = i === state.shot ? "#ff6b6b" : "#7cc7ff";
      c.beginPath(); c.arc(u, v, i === state.shot ? 4 : 2.2, 0, 7); c.fill();
    });
    c.fillStyle = "#ffc857"; c.strokeStyle = "#15171a"; c.lineWidth = 2;
    c.beginPath(); c.arc(R + x * (R - 10), R - y * (R - 10), 8, 0, 7); c.fill(); c.stroke();
    c.lineWidth = 1;
  }

  // ---- what a person does -----------------------------------------------------------------------------------------
  function setLight(x, y) {
    const length = Math.hypot(x, y), most = 0.98;
    state.light = length > most ? [x / length * most, y / length * most] : [x, y];
    draw();
  }
  function onDrag(element, move) {
    let last = null;
    element.addEventListener("pointerdown", (event) => {
      element.setPointerCapture(event.pointerId);
      last = [event.clientX, event.clientY];
      move(event, 0, 0);
    });
    element.addEventListener("pointermove", (event) => {
      if (!last) return;
      move(event, event.clientX - last[0], event.clientY - last[1]);
      last = [event.clientX, event.clientY];
    });
    for (const end of ["pointerup", "pointercancel"]) element.addEventListener(end, () => { last = null; });
  }
  onDrag(pad, (event) => {
    const box = pad.getBoundingClientRect(), R = box.width / 2;
    setLight((event.clientX - box.left - R) / (R - 10), -(event.clientY - box.top - R) / (R - 10));
  });
  onDrag(view, (event, dx, dy) => {
    if (state.cut) {
      const end = placeOf(event);
      state.cut = dx || dy ? [state.cut[0], end] : [end, end];
    } else state.turn = [state.turn[0] + dx * 0.008, Math.max(-1.5, Math.min(1.5, state.turn[1] + dy * 0.008))];
    draw();
  });
  view.addEventListener("wheel", (event) => {
    event.preventDefault();
    state.zoom = Math.max(0.3, Math.min(12, state.zoom * Math.exp(-event.deltaY * 0.0015)));
    draw();
  }, { passive: false });
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  function onArrows(element, move) {
    element.addEventListener("keydown", (event) => {
      if (!(event.key in arrows)) return;
      event.preventDefault();
      move(...arrows[event.key]);
    });
  }
  onArrows(pad, (x, y) => setLight(state.light[0] + 0.05 * x, state.light[1] + 0.05 * y));
  onArrows(view, (x, y) => {
    if (state.cut) { state.cut = state.cut.map(([u, v]) => [u + 0.02 * x, v + 0.02 * y]); draw(); return; }
    state.turn = [state.turn[0] + 0.08 * x, Math.max(-1.5, Math.min(1.5, state.turn[1] - 0.08 * y))];
    draw();
  });
  byId("gloss").addEventListener("input", (event) => { state.gloss = event.target.value / 100; draw(); });
  byId("ambient").addEventListener("input", (event) => { state.ambient = event.target.value / 100; draw(); });
  byId("reset").addEventListener("click", () => { state.turn = [0, 0]; state.zoom = 1; draw(); });
  byId("cut").addEventListener("click", () => {
    state.cut = state.cut ? null : [[-1, 0], [1, 0]];
    state.turn = [0, 0];
    byId("cut").setAttribute("aria-pressed", String(Boolean(state.cut)));
    draw();
  });
  byId("still").addEventListener("click", () => view.toBlob((blob) => {
    const link = document.createElement("a");
    const place = URL.createObjectURL(blob);
    link.setAttribute("href", place);
    link.download = "still.png";
    link.click();
    setTimeout(() => URL.revokeObjectURL(place), 10000);
  }));

  // ---- a profile through the depth ----------------------------------------------------------------------------------
  // Heights on a grid as coarse as the vertices, in the plane that the camera sees, from −1 to 1.
  const cells = Math.max(8, Math.floor(Math.sqrt(data.vertices) * 0.7)), heights = new Float32Array(cells * cells).fill(NaN);
  for (let i = 0; i < data.vertices; i++) {
    const [x, y, z] = [0, 1, 2].map((k) => arrays.positions[3 * i + k] / 32767);
    heights[cellOf(x, y)] = z;
  }
  function cellOf(x, y) {
    const of = (t) => Math.max(0, Math.min(cells - 1, Math.floor((t + 1) / 2 * cells)));
    return of(y) * cells + of(x);
  }
  function heightAt(x, y) { // between the four cells around, where there are four
    const side = 1 / cells, u = (x + 1) / 2 * cells - 0.5, v = (y + 1) / 2 * cells - 0.5, [s, t] = [u - Math.floor(u), v - Math.floor(v)];
    const [a, b, c, d] = [[-1, -1], [1, -1], [-1, 1], [1, 1]].map(([i, j]) => heights[cellOf(x + (i < 0 ? -s : 1 - s) * 2 * side, y + (j < 0 ? -t : 1 - t) * 2 * side)]);
    const mixed = (1 - t) * ((1 - s) * a + s * b) + t * ((1 - s) * c + s * d);
    return Number.isFinite(mixed) ? mixed : heights[cellOf(x, y)];
  }
  function placeOf(event) { // in the plane of the object, from the front
    const box = view.getBoundingClientRect(), reach = Math.min(box.width, box.height) * 0.46 * state.zoom;
    return [(event.clientX - box.left - box.width / 2) / reach, -(event.clientY - box.top - box.height / 2) / reach];
  }
  function drawCut(width, height, reach) {
    const sheet = byId("line"), c = sheet.getContext("2d");
    sheet.width = width; sheet.height = height;
    byId("plot").hidden = !state.cut;
    if (!state.cut) return;
    const [[x0, y0], [x1, y1]] = state.cut;
    c.strokeStyle = "#ffc857"; c.lineWidth = 2;
    c.beginPath(); c.moveTo(width / 2 + x0 * reach, height / 2 - y0 * reach); c.lineTo(width / 2 + x1 * reach, height / 2 - y1 * reach); c.stroke();
    const n = 200, length = Math.hypot(x1 - x0, y1 - y0) * data.half, profile = [];
    for (let i = 0; i <= n; i++) {
      const x = x0 + (x1 - x0) * i / n, y = y0 + (y1 - y0) * i / n;
      profile.push(Math.abs(x) > 1 || Math.abs(y) > 1 ? NaN : heightAt(x, y) * data.half);
    }
    drawProfile(profile, length);
  }
  function drawProfile(profile, length) {
    const canvas = byId("profile"), c = canvas.getContext("2d"), known = profile.filter(Number.isFinite);
    c.clearRect(0, 0, canvas.width, canvas.height);
    canvas.dataset.values = JSON.stringify(profile.map((z) => Number.isFinite(z) ? z : null));
    canvas.dataset.length = length;
    const text = (value) => `${value.toPrecision(3)}${data.unit && " " + data.unit}`;
    if (!known.length) { byId("caption").textContent = "The line does not cross the object; drag another one."; return; }
    const low = Math.min(...known), high = Math.max(...known), tall = Math.max(high - low, 1e-9);
    c.strokeStyle = "#7cc7ff"; c.lineWidth = 2;
    c.beginPath();
    let down = false;
    profile.forEach((z, i) => {
      if (!Number.isFinite(z)) { down = false; return; }
      const x = i / (profile.length - 1) * canvas.width, y = canvas.height - 8 - (z - low) / tall * (canvas.height - 16);
      if (down) c.lineTo(x, y); else c.moveTo(x, y);
      down = true;
    });
    c.stroke();
    byId("caption").textContent = `Length ${text(length)}, height ${text(high - low)}. Drag another line over the object.`;
  }

  // ---- photographs --------------------------------------------------------------------------------------------------
  const shots = data.photographs, bars = byId("bars");
  const typical = shots.map((shot) => shot.residual).sort((p, q) => p - q)[Math.floor(shots.length / 2)] || 0;
  function drawBars() {
    const c = bars.getContext("2d"), most = Math.max(...shots.map((shot) => shot.residual), 1e-9), step = bars.width / shots.length;
    c.clearRect(0, 0, bars.width, bars.height);
    shots.forEach((shot, i) => {
      const tall = Math.max(1, shot.residual / most * (bars.height - 4));
      c.fillStyle = i === state.shot ? "#ff6b6b" : shot.residual > 3 * typical ? "#ffc857" : "#7cc7ff";
      c.fillRect(i * step, bars.height - tall, Math.max(step - 1, 0.8), tall);
    });
    const per = (value) => `${(100 * value).toPrecision(2)} %`;
    const worst = shots.reduce((k, shot, i) => shot.residual > shots[k].residual ? i : k, 0);
    const shot = shots[state.shot];
    byId("chosen").textContent = shot
      ? `${shot.name}: misfit ${per(shot.residual)} of the albedo${shot.error === undefined ? "" : `, light ±${shot.error}°`}. The lamp is there.`
      : `Misfit of every photograph; the worst is ${shots[worst].name}, ${per(shots[worst].residual)} of the albedo.`;
  }
  function choose(i) {
    state.shot = Math.max(0, Math.min(shots.length - 1, i));
    setLight(shots[state.shot].light[0], shots[state.shot].light[1]);
    drawBars();
  }
  bars.addEventListener("click", (event) => {
    const box = bars.getBoundingClientRect();
    choose(Math.floor((event.clientX - box.left) / box.width * shots.length));
  });
  onArrows(bars, (x, y) => choose(state.shot + x + y));
  byId("dots").textContent = shots.some((shot) => shot.before) ? "Blue: estimated lights; a line leads from each given one."
    : shots.some((shot) => shot.error !== undefined) ? "Blue: estimated lights." : "Blue: lights of the photographs.";
  drawBars();

  const buttons = [...byId("modes").children];
  const legends = { 3: ["0", "1", (t) => { const g = Math.round(255 * t); return [g, g, g]; }],
    4: ["0°", `${data.errorRange}°+`, null] };
  function show(mode) {
    state.mode = mode;
    for (const button of buttons) button.setAttribute("aria-pressed", String(Number(button.dataset.mode) === mode));
    byId("legend").hidden = !(mode in legends);
    if (mode in legends) drawLegend(...legends[mode]);
    draw();
  }
  function drawLegend(low, high, colour) {
    byId("low").textContent = low;
    byId("high").textContent = high;
    const c = byId("scale").getContext("2d");
    for (let x = 0; x < 160; x++) {
      const t = x / 159, rgb = colour ? colour(t) : infernoRGB(t);
      c.fillStyle = `rgb(${rgb.join()})`;
      c.fillRect(x, 0, 1, 10);
    }
  }
  function infernoRGB(t) { // the shader's polynomial
    const rows = inferno.match(/vec3\(([^)]*)\)/g).map((text) => text.slice(5, -1).split(",").map(Number));
    return [0, 1, 2].map((k) => Math.round(255 * Math.max(0, Math.min(1, rows.reduceRight((sum, row) => sum * t + row[k], 0)))));
  }
  for (const button of buttons) button.addEventListener("click", () => show(Number(button.dataset.mode)));
  const errorButton = buttons[4];
  errorButton.disabled = !data.hasError;
  if (!data.hasError) errorButton.title = "The true normals of this scene are not known.";
  new ResizeObserver(draw).observe(view);
  message.textContent = "";
  document.body.dataset.ready = "true";
  draw();
})().catch((error) => { document.getElementById("message").textContent = "The page could not be drawn: " + error.message; });
