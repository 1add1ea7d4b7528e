// Adds a button that opens the load's charts in uPlot, where a drag zooms in. The
// charts of the page itself are drawn without any script.
(() => {
  const source = document.getElementById("timeline");
  const place = document.getElementById("zoom");
  if (!source || !place || typeof uPlot === "undefined") return;
  const data = JSON.parse(source.textContent);
  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Zoom into the load";
  place.append(button);
  const charts = [];

  const draw = () => {
    charts.splice(0).forEach((chart) => chart.destroy());
    const axis = (size) => ({
      size, stroke: colour("--soft"), grid: { stroke: colour("--edge"), width: 1 },
      ticks: { stroke: colour("--edge"), width: 1 },
    });
    const series = (label, name) => ({ label, stroke: colour(name), width: 1.5 });
    const add = (values, lines) => {
      charts.push(new uPlot({
        width: place.clientWidth, height: 240,
        cursor: { sync: { key: "load" } },
        scales: { x: { time: false } },
        axes: [axis(36), axis(64)],
        series: [{ label: data.x }, ...lines],
      }, [data.at, ...values], place));
    };
    add([data.acked, data.lost],
      [series("commits/s", "--kept"), series("of them lost", "--lost")]);
    add([data.p50, data.p99], [series("p50 ms", "--first"), series("p99 ms", "--second")]);
    charts.forEach((chart) => chart.root.classList.add("zoomed"));
  };

  button.addEventListener("click", () => {
    draw();
    button.textContent = "Reset the zoom";
  });
  addEventListener("resize", () => { if (charts.length) draw(); });
  matchMedia("(prefers-color-scheme: dark)")
    .addEventListener("change", () => { if (charts.length) draw(); });
})();
